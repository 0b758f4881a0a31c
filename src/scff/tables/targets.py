"""What a target may be: one column of labels, or one of numbers, with an entry for every row."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
from scipy import sparse

from scff.errors import DataError
from scff.tables.naming import check_writable

__all__ = ["class_labels", "group_codes", "number_target", "one_column"]

Labels = npt.NDArray[Any]

#: Of a target: sums of larger numbers, and differences smaller than its inverse, are nothing in single precision.
_LARGEST = 1e30
#: Share of a target's spread that single precision may round off.
_FINEST = 0.25
#: Whole numbers beyond it are not all floats, and several of them become one.
_EXACT = 2.0**53


def one_column(y: Any, n_rows: int | None, what: str) -> Labels:
    """A target as one column with an entry for every row of the support; missing ones are None or NaN.

    Raises
    ------
    DataError
        If it is none, of another length, in several columns, sparse, or of values that are no scalars.
    """
    if y is None:
        raise DataError(f"fit requires y to be passed, but the target y is None; give one {what} per row.")
    if sparse.issparse(y):
        raise DataError(f"The target is a sparse matrix; give one {what} per row as an array (y.toarray().ravel()).")
    if isinstance(y, str | bytes | dict) or callable(getattr(y, "read", None)):
        raise DataError(f"The target must be one column, one {what} per row, not a {type(y).__name__}.")
    try:
        with warnings.catch_warnings():
            # Lists of labels of several kinds are told apart below, in one sentence.
            warnings.simplefilter("ignore")
            values = np.asarray(_dense(y))
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"The target must be one column, one {what} per row ({_first_line(error)}).") from error
    if values.ndim == 2 and values.shape[1] == 1:
        warnings.warn(
            "A column-vector y was passed when a 1d array was expected; it is read as one column.",
            _conversion_warning(),
            stacklevel=4,
        )
        values = values[:, 0]
    if values.ndim != 1:
        raise DataError(
            f"The target must be one column, one {what} per row; it has {values.ndim} dimensions ({values.shape})."
        )
    if n_rows is not None and len(values) != n_rows:
        raise DataError(f"X has {n_rows} rows but y has {len(values)}; give one {what} per row.")
    if values.dtype.kind == "V":
        raise DataError(f"The target holds {values.dtype} values; give one {what} per row.")
    return values


def class_labels(y: Any, n_rows: int) -> tuple[npt.NDArray[np.int64], Labels]:
    """Class codes of the rows, and the sorted classes.

    Raises
    ------
    DataError
        As `one_column`; also if a label is missing, there is one class only, two differ by blanks only, or the values
        are no labels of classes: fractions, bytes, dates, objects, or labels of several types, which have no order.
    """
    labels = one_column(y, n_rows, "label")
    _refuse_missing(labels)
    if labels.dtype.kind == "O":
        labels = _same_type(labels)
    if labels.dtype.kind == "S":
        raise DataError("The target holds bytes; decode them to text first (y.astype(str)).")
    if labels.dtype.kind not in "biufUTO":
        raise DataError(f"The target holds {labels.dtype} values, which are no labels of classes; make them text.")
    if labels.dtype.kind == "f":
        if not np.isfinite(labels).all():
            raise DataError("The target contains infinity; drop or label those rows first.")
        if (labels != np.floor(labels)).any():
            raise DataError(
                "Unknown label type: the target is continuous, numbers with fractions. Use FoldedRegressor for "
                "numbers, or make classes of them."
            )
        if np.abs(labels).max() > _EXACT:
            raise DataError("The target holds numbers too large to be told apart exactly; make them text.")
    classes, codes = np.unique(labels, return_inverse=True)
    _refuse_blanks(classes)
    if len(classes) < 2:
        only = classes[0].item() if isinstance(classes[0], np.generic) else classes[0]
        raise DataError(f"The target has one class ({only!r}); a classifier needs rows of at least two.")
    check_writable((str(label) for label in classes), "Class")
    return codes.astype(np.int64).reshape(-1), classes


def group_codes(groups: Any, n_rows: int) -> npt.NDArray[np.int64]:
    """Codes of the groups that rows belong to.

    Raises
    ------
    DataError
        As `one_column`; also if a row has no group, or groups are of several types.
    """
    labels = one_column(groups, n_rows, "group")
    if pd.isna(labels).any():
        raise DataError(f"{int(pd.isna(labels).sum())} of {n_rows} groups are missing; give each row its group.")
    try:
        codes = np.unique(labels, return_inverse=True)[1]
    except TypeError as error:
        raise DataError("The groups are of several types; make them all text or all numbers.") from error
    return codes.astype(np.int64).reshape(-1)


def number_target(y: Any, n_rows: int) -> npt.NDArray[np.float64]:
    """A target as numbers, one for each row.

    Raises
    ------
    DataError
        As `one_column`; also if a number is missing, infinite, or not a number at all.
    """
    values = one_column(y, n_rows, "number")
    if values.dtype.kind == "c" or values.dtype.kind in "MmSV":
        raise DataError(f"The target must be one column of numbers; it holds {values.dtype} values.")
    try:
        with np.errstate(over="ignore"):  # long doubles beyond any float are infinite, and refused below
            target: npt.NDArray[np.float64] = values.astype(np.float64)
    except (TypeError, ValueError, OverflowError) as error:
        raise DataError(f"The target must be one column of numbers ({_first_line(error)}).") from error
    if not np.isfinite(target).all():
        raise DataError("The target contains NaN or infinity; drop those rows first.")
    return target


def refuse_untold(target: npt.NDArray[np.float64]) -> None:
    """Refuse numbers that differ and that a model, which reckons in single precision, could not tell apart.

    Raises
    ------
    DataError
        Saying what to do with them.
    """
    largest, low, high = float(np.abs(target).max()), float(target.min()), float(target.max())
    if low == high:
        return
    if largest > _LARGEST or high - low < 1 / _LARGEST:
        raise DataError(
            f"The target goes from {low:g} to {high:g}, which is more or less than a model takes; bring it to another "
            "unit."
        )
    if float(np.spacing(np.float32(largest))) > _FINEST * float(target.std()):
        raise DataError(
            f"The target is {target.mean():g} give or take {target.std():g}, which a model cannot tell apart in single "
            "precision; subtract its mean first, and add it to what is predicted."
        )


def _dense(y: Any) -> Any:
    """What NumPy makes an array of: pandas' own types without their wrapping, missing values as objects."""
    if hasattr(y, "to_pandas") and not isinstance(y, pd.Series | pd.DataFrame):  # polars, Arrow
        y = y.to_pandas()
    if isinstance(y, np.ma.MaskedArray):  # NumPy would forget the mask
        return np.ma.filled(y.astype(object), None)
    if isinstance(y, pd.DataFrame):
        return y.iloc[:, 0].to_numpy()[:, None] if y.shape[1] == 1 else y
    if isinstance(y, pd.Series | pd.Index | pd.api.extensions.ExtensionArray):
        y = pd.Series(y)
        if isinstance(y.dtype, pd.api.extensions.ExtensionDtype) and not isinstance(y.dtype, pd.CategoricalDtype):
            missing = y.isna().any()
            if pd.api.types.is_bool_dtype(y.dtype) and not missing:
                return y.to_numpy(dtype=bool)
            if pd.api.types.is_numeric_dtype(y.dtype):
                return y.to_numpy(dtype=np.float64, na_value=np.nan) if missing else np.asarray(y.tolist())
            return y.to_numpy(dtype=object)
    return y


def _refuse_missing(labels: Labels) -> None:
    missing = int(pd.isna(labels).sum())
    if missing:
        raise DataError(f"{missing} of {len(labels)} target values are missing; drop or label those rows first.")


def _refuse_blanks(classes: Labels) -> None:
    """Refuse text that only blanks tell apart: nobody means two classes by it."""
    if classes.dtype.kind not in "UTO":
        return
    seen: dict[str, str] = {}
    for label in map(str, classes):
        if (other := seen.setdefault(" ".join(label.split()), label)) is not label:
            raise DataError(
                f"The classes {other!r} and {label!r} differ by blanks only; write them alike (y.str.strip())."
            )


def _same_type(labels: Labels) -> Labels:
    """Objects that are all text, all truth values or all numbers, as an array of that type."""
    kinds = {type(label) for label in labels}
    if all(issubclass(kind, str) for kind in kinds):
        return labels
    if all(issubclass(kind, bytes) for kind in kinds):
        raise DataError("The target holds bytes; decode them to text first.")
    if all(issubclass(kind, bool | np.bool_) for kind in kinds):
        return labels.astype(bool)
    numbers = (int, float, np.integer, np.floating)
    if all(issubclass(kind, numbers) and not issubclass(kind, bool) for kind in kinds):
        same = np.asarray(labels.tolist())
        if same.dtype.kind == "O":
            raise DataError("The target holds numbers too large to be told apart exactly; make them text.")
        return same
    names = ", ".join(sorted(kind.__name__ for kind in kinds)[:4])
    raise DataError(f"The target holds labels of type {names}; make them all text (y.astype(str)) or all numbers.")


def _conversion_warning() -> type[Warning]:
    from sklearn.exceptions import DataConversionWarning

    kind: type[Warning] = DataConversionWarning
    return kind


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or [type(error).__name__])[0][:160]
