"""Where the numbers of a table may lie, other than in an array."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

__all__ = ["Columns", "PickedRows"]


class Columns(Protocol):
    """A numeric table that stays on disk: as much of an array as folding needs."""

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        ...

    def __len__(self) -> int: ...

    def __getitem__(self, key: Any) -> Any:
        """``[start:stop]`` gives rows without reading them, ``[rows, columns]`` an array."""
        ...


@dataclass(frozen=True)
class PickedRows:
    """Some rows of a numeric table, in any order, picked when columns are asked for: the table is not copied."""

    base: npt.NDArray[np.floating] | Columns
    picked: npt.NDArray[np.int64]

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self.picked), int(self.base.shape[1])

    @property
    def dtype(self) -> Any:
        """Type of the values."""
        return self.base.dtype  # type: ignore[union-attr]

    def __len__(self) -> int:
        return len(self.picked)

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, slice):
            return PickedRows(self.base, self.picked[key])
        rows, columns = key
        return self.base[:, columns][self.picked[rows]]

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[np.floating]:
        whole = np.asarray(self.base)[self.picked]
        return whole if dtype is None else whole.astype(dtype, copy=False)
