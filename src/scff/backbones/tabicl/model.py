"""TabICL v1, v1.1 and v2, the embedded ``nano``, and any checkpoint in TabICL's layout: the loaded model.

Orders of columns and classes are TabICL's own, and so is preprocessing, fitted leaf by leaf
(:mod:`scff.backbones.tabicl.preprocessing`). The regressor has the same seam, a target of numbers, and quantiles for
an output.
"""

from __future__ import annotations

import random
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from tabicl import TabICLClassifier
from tabicl._model.tabicl import TabICL
from tabicl._sklearn.preprocessing import EnsembleGenerator, TransformToNumerical

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray, Views
from scff.backbones.shared.varying import several_values, varying
from scff.backbones.spec import BackboneSpec
from scff.backbones.tabicl.encoder import columns_in_token
from scff.backbones.tabicl.target import Classes, Numbers, Target
from scff.backbones.tabicl.view import Deal, Source, TabICLView
from scff.tables.table import Table

__all__ = ["TabICLBackbone", "TabICLRegressorBackbone"]

_NORMS = ("none", "power")  # TabICL's default normalisations, in the order it deals them to its views


class TabICLBackbone:
    """A loaded TabICL model."""

    def __init__(self, spec: BackboneSpec, path: Path, model: TabICL, device: torch.device) -> None:
        self.spec = spec
        self.path = path
        self.model = model.eval().to(device)
        self.device = device
        encoder = [model.col_embedder, model.row_interactor]
        self.arithmetic = Arithmetic.of(encoder, [model.icl_predictor], columns_in_token(model))

    def views(
        self, support: Table, y: npt.NDArray[Any], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabICLView]:
        """TabICL's ensemble views of a support table."""
        encoder = None
        order = np.arange(support.n_columns)
        numbers = support
        if not support.is_numeric:
            with warnings.catch_warnings():  # columns of many labels are named once, by the estimator
                warnings.filterwarnings("ignore", message="The following categorical columns have a cardinality")
                encoder = TransformToNumerical().fit(support.values)
            order = _column_order(encoder)
            numbers = Table(np.asarray(encoder.transform(support.values)))
        kept = order[varying(numbers, _several)]
        # Where each of the user's columns stands in the numeric table.
        where = np.full(support.n_columns, -1, dtype=np.int64)
        where[order] = np.arange(len(order))
        source = Source(numbers, where, encoder)
        config = self._inference_config(support)
        deals = _deal(kept, support.n_columns, self._n_classes(y), n_estimators, random_state)

        def build(i: int) -> TabICLView:
            target = self._target(y, deals[i].classes)
            return TabICLView(self.model, config, deals[i], source, kept, target, cache)

        return Views(len(deals), build)

    def _n_classes(self, y: npt.NDArray[Any]) -> int:
        """How many classes TabICL has to put in order."""
        return int(y.max()) + 1

    def _target(self, y: npt.NDArray[Any], classes: IntArray) -> Target:
        """The target of one view, whose classes are in that order."""
        return Classes(y, classes)

    def combine(self, logits: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Mean logits, then softmax at TabICL's temperature."""
        mean = np.zeros_like(logits[0])
        for view in logits:
            mean += view
        mean /= len(logits)
        proba = TabICLClassifier.softmax(mean, axis=-1, temperature=0.9)
        out: npt.NDArray[np.float64] = proba / proba.sum(axis=1, keepdims=True)
        return out

    def _inference_config(self, support: Table) -> Any:
        """Mixed precision and offloading as TabICL itself decides them for a table of this size."""
        upstream = TabICLClassifier(device=self.device)
        upstream.device_ = self.device
        upstream.n_samples_in_, upstream.n_features_in_ = support.n_rows, support.n_columns
        upstream._build_inference_config()
        return upstream.inference_config_


class TabICLRegressorBackbone(TabICLBackbone):
    """A loaded TabICL regressor."""

    def combine(self, predictions: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Mean over the views."""
        mean: npt.NDArray[np.float64] = np.mean(np.stack(predictions), axis=0, dtype=np.float64)
        return mean

    def _n_classes(self, y: npt.NDArray[Any]) -> int:
        return 1  # which has a single order

    def _target(self, y: npt.NDArray[Any], classes: IntArray) -> Target:
        return Numbers(y)


def _column_order(encoder: TransformToNumerical) -> IntArray:
    """The user's column behind each column of TabICL's numeric table: categories first, others dropped."""
    kept = [np.asarray(columns) for _, step, columns in encoder.tfm_.transformers_ if step != "drop"]
    return np.concatenate([np.asarray(columns, dtype=np.int64) for columns in kept])


def _several(block: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Columns with more than one value once TabICL has filled the holes."""
    return several_values(TransformToNumerical().fit_transform(block) if np.isnan(block).any() else block)


def _deal(kept: IntArray, n_columns: int, n_classes: int, n_estimators: int, random_state: int) -> list[Deal]:
    """Column orders, class orders and normalisations as TabICL's own generator deals them."""
    generator = EnsembleGenerator(classification=True, n_estimators=n_estimators, random_state=random_state)
    # What its `fit` would set; calling `fit` would also preprocess the whole table.
    generator.norm_methods_ = list(_NORMS)
    generator.n_features_in_, generator.n_classes_ = len(kept), n_classes
    generator.rng_ = random.Random(random_state)
    configs, _, _ = generator._generate_ensemble()
    deals = []
    for norm in _NORMS:  # the generator's own order follows string hashes and changes from run to run
        for columns, classes in configs.get(norm, ()):
            position = np.full(n_columns, -1, dtype=np.int64)
            position[kept[np.asarray(columns)]] = np.arange(len(kept))
            deals.append(Deal(norm, position, np.asarray(classes, dtype=np.int64)))
    return deals
