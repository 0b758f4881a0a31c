"""What the file of a table says before it is read whole: its columns, and of Parquet its rows."""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from scff.errors import DataError

__all__ = ["header"]


def header(path: Path) -> tuple[list[str], int | None]:
    """Names of the columns, and the number of rows where the format tells it.

    Raises
    ------
    DataError
        If the file is no table.
    """
    try:
        if path.suffix != ".parquet":
            return [str(name) for name in pd.read_csv(path, nrows=0).columns], None
        import pyarrow.parquet as parquet

        facts = parquet.ParquetFile(path)
        index = (facts.schema_arrow.pandas_metadata or {}).get("index_columns", [])  # pandas reads them as no columns
        return [name for name in facts.schema_arrow.names if name not in index], facts.metadata.num_rows
    except (OSError, ValueError) as error:  # Arrow's and pandas' own are among them
        said = (str(error).strip().splitlines() or [type(error).__name__])[0][:160]
        raise DataError(f"{path} cannot be read as a table ({said}).") from error
