"""One class that turns batches of rows into batches of predictions, wherever the batches come from."""

from __future__ import annotations

import copy
import os
import threading
import uuid
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
from pandas.api import types as pdt

from scff.errors import DataError, ModelFileError, shown
from scff.memory.budget import parse_bytes
from scff.serving.places import digest_of, place_of

if TYPE_CHECKING:
    from scff.estimators.base import FoldedEstimator

__all__ = ["Scorer", "as_frame", "names_to_keep"]

PREDICTION = "prediction"

_loading, _predicting = threading.Lock(), threading.Lock()
_loaded: OrderedDict[Any, FoldedEstimator] = OrderedDict()
# Models that a process keeps compiled: a service may have the last version beside the new one.
_MOST_LOADED = 2


class Scorer:
    """A fitted model as a function of batches, for Ray Data, Spark, Dask, a web service or a loop.

    It is small to send to another process: a model file goes as its path and digest, and is loaded there once, however
    often the scorer itself is unpacked. Rows do not depend on each other, so batches of any size give the same
    predictions.

    Parameters
    ----------
    model : path, URL or fitted estimator
        A file written by ``scff fit``, or a `FoldedClassifier` or `FoldedRegressor`.
    proba : bool, default=True
        Also give one probability column ``p_<class>`` per class.
    keep : sequence of str
        Columns of the batch that come out again, before the prediction: keys, a date, the true label.
    memory_limit : int or str, optional
        Budget for the memory that predicting adds, such as ``"2GiB"``; the one of the fit by default.
    device : str, optional
        Where to predict; the one of the fit by default.

    Raises
    ------
    ModelFileError
        If there is no such file.

    Examples
    --------
    >>> import pandas as pd
    >>> from sklearn.datasets import load_iris
    >>> from scff import FoldedClassifier
    >>> from scff.serving import Scorer
    >>> iris = load_iris(as_frame=True)
    >>> model = FoldedClassifier(backbone="nano", method="raw-core").fit(iris.data[::2], iris.target[::2])
    >>> score = Scorer(model, keep=["plant"])
    >>> batch = iris.data[1::2].assign(plant=[f"no {i}" for i in range(75)])
    >>> score(batch).columns.to_list()
    ['plant', 'prediction', 'p_0', 'p_1', 'p_2']
    >>> score({name: column.to_numpy() for name, column in batch.items()})["prediction"][:3]
    array([0, 0, 0])
    """

    def __init__(
        self,
        model: str | os.PathLike[str] | FoldedEstimator,
        *,
        proba: bool = True,
        keep: Sequence[str] = (),
        memory_limit: int | str | None = None,
        device: str | None = None,
    ) -> None:
        self.proba = proba
        self.keep = names_to_keep(keep)
        self.memory_limit = None if memory_limit is None else parse_bytes(memory_limit)
        self.device = device
        self._place = self._given = None
        if isinstance(model, str | os.PathLike):
            self._place = place_of(model)
            if not self._place.exists() or self._place.is_folder():
                raise ModelFileError(f"There is no model {model}; make one with `scff fit`.")
            with self._place.on_disk() as path:
                self.digest = digest_of(path)
        elif not hasattr(type(model), "predict") or isinstance(model, type):
            raise ModelFileError(f"A model is a file or a fitted estimator of this library, not {shown(model)}.")
        else:
            self._given, self.digest = model, f"unsaved-{uuid.uuid4().hex}"

    @property
    def model(self) -> FoldedEstimator:
        """The model, loaded by whoever asks first in this process.

        Raises
        ------
        ModelFileError
            If the file is no model, or not the one this scorer was made for.
        """
        key = (self.digest, self.memory_limit, self.device)
        with _loading:
            if key not in _loaded:
                _loaded[key] = self._load()
                while len(_loaded) > _MOST_LOADED:
                    _loaded.popitem(last=False)
            _loaded.move_to_end(key)
            return _loaded[key]

    def __call__(self, batch: Any) -> Any:
        """Predict a batch.

        Parameters
        ----------
        batch : DataFrame, Table or RecordBatch of pyarrow, or mapping of names to arrays
            With the columns the model was fitted on, in any order; other columns are ignored.

        Returns
        -------
        DataFrame, Table or dict of arrays
            Of the same kind, with as many rows: kept columns, ``prediction``, probabilities. A DataFrame keeps its
            index.

        Raises
        ------
        DataError
            If a column is missing, or holds text where the model was fitted on numbers, or the other way round.
        """
        if isinstance(batch, pa.RecordBatch):
            batch = pa.Table.from_batches([batch])
        if not isinstance(batch, pa.Table | pd.DataFrame | Mapping):
            raise DataError(
                f"A batch is a {type(batch).__name__}; use a DataFrame, an Arrow table or a mapping to arrays."
            )
        self.check_names(batch.column_names if isinstance(batch, pa.Table) else [*batch])
        names = self.names
        if isinstance(batch, pa.Table):
            answer = self.predictions(as_frame(batch.select(names)))
            return self.beside({name: batch.column(name) for name in self.keep}, answer)
        if isinstance(batch, pd.DataFrame):
            answer = self.predictions(batch[names])
            kept = batch[list(self.keep)]
            return pd.concat([kept, pd.DataFrame(answer, index=batch.index)], axis=1)
        try:
            rows = pd.DataFrame({name: np.asarray(batch[name]) for name in names})
        except ValueError as error:
            raise DataError(f"A batch must hold one array for each column, all of one length ({error}).") from error
        answer = self.predictions(rows)
        return {name: np.asarray(batch[name]) for name in self.keep} | answer

    def limited(self, memory_limit: int) -> Scorer:
        """The same scorer with another budget."""
        return self._with(memory_limit=memory_limit)

    def _with(self, **changed: Any) -> Scorer:
        other = copy.copy(self)
        other.__dict__.update(changed)
        return other

    @property
    def names(self) -> list[str]:
        """Columns the model was fitted on.

        Raises
        ------
        DataError
            If it was fitted on an array.
        """
        names = getattr(self.model, "feature_names_in_", None)
        if names is None:
            raise DataError(
                "This model was fitted on an array without column names, and a batch is read by name; fit it on a "
                "DataFrame, or call its predict yourself."
            )
        return [str(name) for name in names]

    @property
    def is_numeric(self) -> bool:
        """Whether every column of the fit holds numbers."""
        return self.model.fitted_.support.is_numeric

    def is_number(self, name: str) -> bool:
        """Whether a column of the fit holds numbers."""
        values = self.model.fitted_.support.values
        return not isinstance(values, pd.DataFrame) or pdt.is_numeric_dtype(values[name].dtype)

    @property
    def outputs(self) -> list[str]:
        """Names of the columns that are made: the prediction, then probabilities."""
        classes = self.model.fitted_.classes
        return [PREDICTION, *(f"p_{label}" for label in (classes if self.proba and classes is not None else ()))]

    def check_names(self, present: Sequence[str]) -> None:
        """Refuse rows that lack a column.

        Raises
        ------
        DataError
            Naming it.
        """
        there = set(map(str, present))
        missing = [name for name in self.names if name not in there]
        if missing:
            more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
            raise DataError(f"The column {missing[0]!r}{more} that the model was fitted on is missing.")
        missing = [name for name in self.keep if name not in there]
        if missing:
            raise DataError(f"The column {missing[0]!r} that is to be kept is missing.")
        taken = next((name for name in self.keep if name in self.outputs), None)
        if taken is not None:
            raise DataError(f"The column {taken!r} cannot be kept: predictions have that name; rename it.")

    def beside(self, kept: Mapping[str, Any], answer: Mapping[str, npt.NDArray[Any]]) -> pa.Table:
        """Kept columns and predictions as one Arrow table, of the same types for every batch."""
        types = {name: self.label_type() if name == PREDICTION else pa.float64() for name in answer}
        return pa.table(dict(kept) | {name: pa.array(answer[name], type=kind) for name, kind in types.items()})

    def predictions(self, rows: Any) -> dict[str, npt.NDArray[Any]]:
        """What is predicted of rows that hold the columns of the fit, as columns."""
        model = self.model
        fitted = model.fitted_
        if len(rows) == 0 if isinstance(rows, pd.DataFrame) else rows.n_rows == 0:
            answer = np.empty((0, 1 if fitted.classes is None else len(fitted.classes)))
        else:
            with _predicting:  # torch's threads are the process's: two predictions at a time gain nothing
                found = model.predict(rows)[:, None] if fitted.classes is None else model.predict_proba(rows)
            answer = np.asarray(found, dtype=np.float64)
        if fitted.classes is None:
            return {PREDICTION: answer[:, 0]}
        label = np.asarray(fitted.classes)[answer.argmax(axis=1)]
        columns = [label, *(answer.T if self.proba else ())]
        return dict(zip(self.outputs, columns, strict=True))

    def label_type(self) -> pa.DataType:
        """The Arrow type of a prediction, the same for every batch, empty ones too."""
        classes = self.model.fitted_.classes
        return pa.float64() if classes is None else pa.array(np.asarray(classes).tolist()).type

    def _load(self) -> FoldedEstimator:
        from scff.models.file import load

        if self._place is None:
            assert self._given is not None
            return self._adapted(self._given)
        with self._place.on_disk() as path:
            try:
                found = digest_of(path)
            except OSError as error:
                raise ModelFileError(f"{self._place} is no longer there ({error.strerror}); begin again.") from error
            if found != self.digest:
                raise ModelFileError(f"{self._place} is not the model it was when this began; begin again.")
            return self._adapted(load(path))

    def _adapted(self, model: FoldedEstimator) -> FoldedEstimator:
        """The model with the limits of this scorer, to be compiled in the process it is used in, without bars."""
        settings = replace(model.fitted_.settings, engine="local", progress=False)
        if self.memory_limit is not None:
            settings = replace(settings, limit=self.memory_limit)
        if self.device is not None:
            settings = replace(settings, device=self.device)
        if settings == model.fitted_.settings:
            return model
        adapted = copy.copy(model)
        adapted.fitted_ = replace(model.fitted_, settings=settings, _compiled=None)
        return adapted


def names_to_keep(keep: Sequence[str]) -> tuple[str, ...]:
    """Names of columns to carry, refused where they are one name: its letters are no columns."""
    if isinstance(keep, str) or not isinstance(keep, Sequence):
        raise DataError(f"keep must be a list of names of columns, not {shown(keep)}.")
    return tuple(keep)


def as_frame(batch: pa.Table) -> pd.DataFrame:
    """Columns of Arrow as pandas reads them; truth values and decimals are numbers, missing ones NaN."""
    for j, kind in enumerate(batch.schema.types):
        if pa.types.is_boolean(kind) or pa.types.is_decimal(kind):
            number = pa.uint8() if pa.types.is_boolean(kind) else pa.float64()
            batch = batch.set_column(j, batch.column_names[j], batch.column(j).cast(number))
    frame: pd.DataFrame = batch.to_pandas(ignore_metadata=True)
    return frame
