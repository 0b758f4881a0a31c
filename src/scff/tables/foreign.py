"""Frames of other libraries as pandas': polars, pyarrow, anything that speaks Arrow or the dataframe protocol.

By name and by what they offer: none of these packages need be installed.
"""

from __future__ import annotations

from typing import Any

import pandas as pd

from scff.errors import DataError

__all__ = ["as_frame", "is_anndata"]


def is_anndata(X: Any) -> bool:
    """Whether this is an `anndata.AnnData`: a matrix with names and descriptions of its rows and columns."""
    return type(X).__module__.split(".")[0] == "anndata" and hasattr(X, "obs") and hasattr(X, "var")


def as_frame(X: Any) -> pd.DataFrame | None:
    """A table of some library as a pandas DataFrame; None for what is no such table.

    Raises
    ------
    DataError
        If it says it is one, and cannot be read.
    """
    if isinstance(X, pd.DataFrame):
        return X
    package = type(X).__module__.split(".")[0]
    try:
        if package == "polars":
            if hasattr(X, "collect"):  # a lazy frame
                X = X.collect()
            if hasattr(X, "to_pandas") and hasattr(X, "columns"):
                return pd.DataFrame(X.to_pandas())
        if package == "pyarrow" and hasattr(X, "to_pandas") and hasattr(X, "column"):
            return pd.DataFrame(X.to_pandas())
        if hasattr(X, "__arrow_c_stream__") and not hasattr(X, "__array__"):
            import pyarrow as pa

            return pd.DataFrame(pa.table(X).to_pandas())
        if hasattr(X, "__dataframe__"):
            from pyarrow.interchange import from_dataframe

            return pd.DataFrame(from_dataframe(X).to_pandas())
    except (ImportError, TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        name = type(X).__name__
        raise DataError(f"This {name} cannot be read as a table ({error}); pass a pandas DataFrame.") from error
    return None
