"""The ``tabpfn`` package: loading a checkpoint, and its preprocessing of a support table."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pandas as pd
import torch

from scff.backbones.base import IntArray, Views
from scff.backbones.known.tabpfn import REQUIRES
from scff.backbones.spec import Task
from scff.backbones.tabpfn.origin import columns_behind
from scff.errors import BackboneNotAvailable, CheckpointError
from scff.tables.table import Table

__all__ = ["Package", "PackageSupport"]


class Package:
    """A checkpoint loaded by the ``tabpfn`` package, ready to fit its estimators.

    Parameters
    ----------
    path : Path
    device : torch.device
    task : {"classification", "regression"}
    """

    def __init__(self, path: Path, device: torch.device, task: Task) -> None:
        base, loading = _import_package()
        self.device = device
        self.task: Task = task
        kind = "classifier" if task == "classification" else "regressor"
        try:
            with torch.random.fork_rng(devices=[]):  # building a network draws weights before they are read
                model, criterion, config, inference = loading.load_model(path=path, estimator_type=kind)
        except Exception as error:  # the package raises many types for a file that does not fit
            first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
            raise CheckpointError(
                f"{path} cannot be loaded by the tabpfn package as a {kind} ({first[:200]}); fetch the file again, or "
                f"install the version it was written for ({REQUIRES})."
            ) from error
        # Some checkpoints are stored in half precision, which a CPU computes neither fast nor well.
        self.model: Any = model.eval().to(device, torch.float32 if device.type == "cpu" else None)
        self.config: Any = config
        self.max_classes = int(min(config.max_num_classes, inference.MAX_NUMBER_OF_CLASSES))
        self._specs = base.ModelSpecs(model, config, inference, criterion if task == "regression" else None)

    def fit(
        self,
        support: Table,
        y: npt.NDArray[Any],
        transform: str,
        *,
        n_estimators: int,
        random_state: int,
        temperature: float | None,
    ) -> Views[PackageSupport]:
        """Fit the package's own preprocessing on a support table.

        Parameters
        ----------
        support : Table
        y : ndarray
            Class codes, or numbers.
        transform : str
            Name of the package's column transform.
        n_estimators : int
            With one there is no shift of columns or classes; with more, the package deals them.
        random_state : int
        temperature : float or None
            None leaves the checkpoint's.
        """
        import tabpfn
        from tabpfn.preprocessing import PreprocessorConfig

        shift = None if n_estimators == 1 else "shuffle"
        config: dict[str, Any] = {
            "PREPROCESS_TRANSFORMS": [
                PreprocessorConfig(
                    transform, categorical_name="numeric", append_original=False, max_features_per_estimator=10**9
                )
            ],
            "FEATURE_SHIFT_METHOD": shift,
            "FINGERPRINT_FEATURE": False,
            "TRANSFORM_DATES": True,  # otherwise the package refuses them
            "POLYNOMIAL_FEATURES": "no",
            "SUBSAMPLE_SAMPLES": None,
        }
        arguments: dict[str, Any] = {
            "model_path": self._specs,
            "n_estimators": n_estimators,
            "device": str(self.device),
            "ignore_pretraining_limits": True,
            "random_state": random_state,
            "fit_mode": "fit_preprocessors",
        }
        if temperature is not None:
            arguments["softmax_temperature"] = temperature
        if self.device.type == "cpu":
            arguments["inference_precision"] = torch.float32
        if self.task == "classification":
            config["CLASS_SHIFT_METHOD"] = shift
            estimator = tabpfn.TabPFNClassifier(inference_config=config, **arguments)
        else:
            config["REGRESSION_Y_PREPROCESS_TRANSFORMS"] = (None,)
            estimator = tabpfn.TabPFNRegressor(inference_config=config, **arguments)
        with _quiet(), torch.random.fork_rng(devices=[]):
            estimator.fit(_plain(support), y)
        parts = estimator.executor_.ensemble_members
        return Views(len(parts), lambda i: PackageSupport(self, estimator, parts[i], support))


class PackageSupport:
    """The support as one of the package's preprocessings presents it, and how query rows follow.

    Attributes
    ----------
    estimator : TabPFNClassifier or TabPFNRegressor
    origin : ndarray of int
        The user's column behind each column the model sees.
    x_SD : Tensor
        The support as the model sees it.
    y_S : Tensor
        The target as the model sees it.
    class_permutation : ndarray or None
    """

    def __init__(self, package: Package, estimator: Any, part: Any, support: Table) -> None:
        self.estimator = estimator
        self.model = package.model
        self.device = package.device
        self._part = part
        self.class_permutation: npt.NDArray[np.int64] | None = getattr(part.config, "class_permutation", None)
        self.y_S = torch.as_tensor(part.y_train, dtype=torch.float32, device=self.device)
        self._train = torch.as_tensor(part.X_train, dtype=torch.float32, device=self.device)
        self.x_SD = self._on_device(None)
        self.origin = columns_behind(self.transform, support, self.x_SD.shape[1], REQUIRES)

    @property
    def columns(self) -> IntArray:
        """The user's columns that reach the model."""
        return np.unique(self.origin)

    def positions(self, leaf: IntArray) -> torch.Tensor:
        """Where the columns of a leaf stand before the model, in the model's own order."""
        return torch.from_numpy(np.flatnonzero(np.isin(self.origin, leaf))).to(self.device)

    @contextlib.contextmanager
    def inference(self) -> Iterator[None]:
        """The precision in which the package itself would call the model."""
        from tabpfn.utils import get_autocast_context

        with torch.no_grad(), get_autocast_context(self.device, enabled=self.estimator.use_autocast_):
            yield

    def prepare(self, rows: Table) -> torch.Tensor:
        """Query rows as the model sees them, x_QD."""
        return self._on_device(self.transform(rows))

    def transform(self, rows: Table) -> npt.NDArray[np.floating]:
        """The package's preprocessing up to the device, in the order its own `predict` has it."""
        from tabpfn.preprocessing.clean import clean_data_transform
        from tabpfn.preprocessing.datamodel import FeatureModality
        from tabpfn.validation import ensure_compatible_predict_input_sklearn

        estimator = self.estimator
        with _quiet():
            X = estimator.text_transformer_.transform(estimator.date_transformer_.transform(_plain(rows)))
            X = clean_data_transform(
                ensure_compatible_predict_input_sklearn(X, estimator),
                cat_indices=estimator.inferred_feature_schema_.indices_for(FeatureModality.CATEGORICAL),
                ord_encoder=getattr(estimator, "ordinal_encoder_", None),
                passthrough_inf=estimator.get_inference_config().PASSTHROUGH_INF,
            )
            return np.asarray(self._part.transform_X_test(X))

    def _on_device(self, rows: npt.NDArray[np.floating] | None) -> torch.Tensor:
        """Run the steps the package has next to the model; they look at the support and at nothing else."""
        n = len(self._train)
        x_TD = self._train
        if rows is not None:
            x_TD = torch.cat([x_TD, torch.as_tensor(rows, dtype=torch.float32, device=self.device)])
        if self._part.gpu_preprocessor is not None:
            result = self._part.gpu_preprocessor(
                x_TD[:, None], feature_schema=self._part.feature_schema, num_train_rows=n, use_fitted_cache=False
            )
            x_TD = result.x[:, 0]
        return x_TD if rows is None else x_TD[n:]


def _plain(table: Table) -> Any:
    """The table without column names where it is numeric: names play no part before the model."""
    # The package preprocesses whole tables: one that stayed on disk until here is loaded.
    return table.values if isinstance(table.values, pd.DataFrame) else np.asarray(table.values)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    # Advice about table sizes and GPUs, which the user of another library cannot follow.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _import_package() -> tuple[Any, Any]:
    try:
        from tabpfn import base, model_loading
    except ImportError as error:
        raise BackboneNotAvailable(
            f"This backbone needs the tabpfn package ({error}); install it with: pip install '{REQUIRES}'"
        ) from error
    if not hasattr(base, "ModelSpecs") or not hasattr(model_loading, "load_model"):
        raise BackboneNotAvailable(f"The installed tabpfn is not one this version knows; install {REQUIRES!r}.")
    return base, model_loading
