"""What every adapter on the ``tabpfn`` package shares: the loaded model, and native inference in one view.

``cache=True`` is the package's key-value cache in full precision, ``cache=False`` its joint pass.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Generic, TypeVar

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray, Views
from scff.backbones.spec import BackboneSpec, Limits, Task
from scff.backbones.tabpfn.package import Package, PackageSupport
from scff.tables.table import Table

__all__ = ["PackageBackbone", "PackageView"]

_TEMPERATURE = 0.9
V = TypeVar("V", bound="PackageView")


class PackageBackbone(ABC, Generic[V]):
    """A loaded model of the package.

    Attributes
    ----------
    transform : str
        The package's column transform in its plain view.
    regressor_temperature : float or None
        Temperature of a regressor; None leaves the checkpoint's.
    """

    transform: str
    regressor_temperature: float | None = None

    def __init__(self, spec: BackboneSpec, path: Path, package: Package) -> None:
        if package.task == "classification":
            spec = replace(spec, limits=Limits(classes=package.max_classes, rows=spec.limits.rows))
        self.spec = spec
        self.path = path
        self.device = package.device
        self._package = package
        # The package does not say which of its weights see cells and which rows; most see cells.
        self.arithmetic = Arithmetic.of([package.model], [])

    @abstractmethod
    def _view(self, support: PackageSupport, cache: bool) -> V:
        """The view of a preprocessed support."""

    def views(
        self, support: Table, y: npt.NDArray[Any], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[V]:
        """The package's views of a support table; with one there is no shift of columns or classes."""
        fitted = self._package.fit(
            support,
            y,
            self.transform,
            n_estimators=n_estimators,
            random_state=random_state,
            temperature=_TEMPERATURE if self._package.task == "classification" else self.regressor_temperature,
        )
        return Views(len(fitted), lambda i: self._view(fitted.view(i), cache))

    def combine(self, outputs: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Class probabilities as the package averages them, after the softmax; mean predictions of a regressor."""
        if self._package.task == "regression":
            mean: npt.NDArray[np.float64] = np.mean(np.stack(outputs), axis=0, dtype=np.float64)
            return mean
        proba = torch.softmax(torch.from_numpy(np.stack(outputs)) / _TEMPERATURE, dim=-1).mean(dim=0).double()
        out: npt.NDArray[np.float64] = (proba / proba.sum(dim=1, keepdim=True)).numpy()
        return out


class PackageView:
    """What row and token views of the package share.

    Parameters
    ----------
    model : torch.nn.Module
    options : dict
        What every call of the model is told besides.
    support : PackageSupport
    task : {"classification", "regression"}
    cache : bool
        Whether to keep the package's key-value caches.
    """

    def __init__(self, model: Any, options: dict[str, Any], support: PackageSupport, task: Task, cache: bool) -> None:
        self.columns = support.columns
        self._model = model
        self._options = options
        self._support = support
        self._task = task
        self._cache = cache

    def prepare(self, rows: Table) -> torch.Tensor:
        """Query rows as the model sees them, once for all leaves."""
        return self._support.prepare(rows)

    def compile_native(self, columns: IntArray) -> Any:
        """The positions of these columns, and the package's key-value cache of them."""
        support = self._support
        positions = support.positions(columns)
        if not self._cache:
            return positions, None
        with support.inference():
            x_S1D = support.x_SD[:, positions][:, None]
            return positions, self._model(x_S1D, support.y_S, return_kv_cache=True, **self._options)[1]

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The package's own inference on all these columns at once."""
        support = self._support
        positions, kv_cache = compiled
        x_QD = self.prepare(rows)[:, positions]
        with support.inference():
            if kv_cache is not None:
                cached = {"kv_cache": kv_cache, "x_is_test_only": True}
                out = self._model(x_QD[:, None], support.y_S, **cached, **self._options)
            else:
                both = torch.cat([support.x_SD[:, positions], x_QD])
                out = self._model(both[:, None], support.y_S, **self._options)
        return self._decode(out[:, 0])

    def _decode(self, out_QK: torch.Tensor) -> torch.Tensor:
        """Logits in the order of the class codes, or predictions_Q1."""
        estimator = self._support.estimator
        out_QK = out_QK.float()
        if self._task == "classification":
            permutation = self._support.class_permutation
            return out_QK[:, : estimator.n_classes_] if permutation is None else out_QK[:, permutation]
        mean: torch.Tensor = estimator.raw_space_bardist_.mean(out_QK / estimator.softmax_temperature_)
        return mean[:, None].float()
