"""Backbones without caches: query rows go through the model beside the support, in one numeric view.

What Orion-MSP, TabFM, TabDPT, LimiX and Mitra share. Nothing is kept from the support but fitted preprocessing; the
models themselves see to it that the support does not look at query rows. Categories become the rank of their label.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from sklearn.impute import SimpleImputer

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray, LeafCache, Views
from scff.backbones.shared.categories import OrdinalCodes
from scff.backbones.shared.varying import varying
from scff.backbones.spec import BackboneSpec
from scff.errors import BackboneError
from scff.memory.budget import Footprint
from scff.tables.table import Table

__all__ = ["JointBackbone", "JointRowView", "JointTokenView", "JointView", "Step", "fill_means"]

Step = Callable[[npt.NDArray[np.floating]], npt.NDArray[np.floating]]


class JointBackbone:
    """A loaded model with one view.

    Parameters
    ----------
    spec : BackboneSpec
    path : Path
    model : torch.nn.Module
    device : torch.device
    view : type
        The class of the model's view.
    temperature : float, default=0.9
        Of the softmax over classes.
    """

    def __init__(
        self,
        spec: BackboneSpec,
        path: Path,
        model: Any,
        device: torch.device,
        view: type[JointView],
        temperature: float = 0.9,
    ) -> None:
        self.spec = spec
        self.path = path
        self.model = model.eval().to(device)
        self.device = device
        self._view = view
        self._temperature = temperature
        self.arithmetic = Arithmetic.of([model], [])  # most of their weights see cells

    def views(
        self, support: Table, y: IntArray, *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[JointView]:
        """The one view; there is nothing to cache and nothing random in it."""
        if n_estimators != 1:
            raise BackboneError(f"{self.spec.name} has one view here; set n_estimators=1, not {n_estimators}.")
        codes = OrdinalCodes.fit(support)
        numbers = codes.transform(support)
        columns = varying(numbers)
        return Views(1, lambda _: self._view(self, codes, numbers, columns, y))

    def combine(self, logits: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Softmax at the model's temperature."""
        proba: npt.NDArray[np.float64] = torch.softmax(
            torch.from_numpy(logits[0]).double() / self._temperature, dim=-1
        ).numpy()
        return proba


class JointView(ABC):
    """What row and token views share: the support as numbers, and preprocessing fitted leaf by leaf.

    Parameters
    ----------
    backbone : JointBackbone
    codes : OrdinalCodes
        How categories became numbers.
    numbers : Table
        The support.
    columns : ndarray of int
        Those that vary.
    y : ndarray of int
        Class codes.
    """

    def __init__(
        self, backbone: JointBackbone, codes: OrdinalCodes, numbers: Table, columns: IntArray, y: IntArray
    ) -> None:
        self.columns = columns
        self.model = backbone.model
        self.device = backbone.device
        self.n_classes = int(y.max()) + 1
        self.y_S = torch.from_numpy(y).float().to(self.device)
        self.codes = codes
        self._numbers = numbers

    @abstractmethod
    def fit(self, block: npt.NDArray[np.floating]) -> Step:
        """The model's own preprocessing of some columns, fitted on their support rows."""

    @abstractmethod
    def run(self, x_TD: torch.Tensor, columns: IntArray) -> torch.Tensor:
        """The model's own inference; the support comes first. Returns logits of the other rows, all outputs."""

    @abstractmethod
    def row_bytes(self, width: int) -> int:
        """Estimate of what a row of a table of that width costs inside the model."""

    def prepare(self, rows: Table) -> Table:
        """Rows as numbers."""
        return self.codes.transform(rows)

    def native_bytes(self, width: int, n_query: int) -> int:
        """Estimate of what `native` adds on a table of that width."""
        return (len(self.y_S) + n_query) * self.row_bytes(width)

    def compile_native(self, columns: IntArray) -> Any:
        """Fitted preprocessing of these columns."""
        return columns, self.fit(self._numbers.columns(columns))

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The model's own inference on all those columns at once."""
        with torch.no_grad():
            columns, step = compiled
            return self.run(self._both(columns, step, self.prepare(rows)), columns)[:, : self.n_classes]

    def _both(self, columns: IntArray, step: Step, rows: Table | None) -> torch.Tensor:
        """Support and query rows of some columns, as the model takes them."""
        parts = [step(self._numbers.columns(columns))]
        if rows is not None:
            parts.append(step(rows.columns(columns)))
        return torch.from_numpy(np.concatenate(parts)).float().to(self.device)


class JointRowView(JointView):
    """A view of a model with a row representation."""

    @abstractmethod
    def encode(self, x_GTW: torch.Tensor, leaves: Sequence[IntArray]) -> torch.Tensor:
        """Feature encoder on rows that begin with the support: h_GTE."""

    @abstractmethod
    def head(self, h_TE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head on merged rows that begin with the support: logits_Q*, all outputs."""

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves."""
        with torch.no_grad():
            steps = tuple(self.fit(self._numbers.columns(leaf)) for leaf in leaves)
            x_GSW = torch.stack([self._both(leaf, step, None) for leaf, step in zip(leaves, steps, strict=True)])
            return self.encode(x_GSW, leaves), LeafCache({}, steps)

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: Table) -> torch.Tensor:
        """Feature encoder on query rows, beside the support."""
        with torch.no_grad():
            x_GTW = torch.stack([self._both(leaf, step, rows) for leaf, step in zip(leaves, cache.state, strict=True)])
            return self.encode(x_GTW, leaves)[:, len(self.y_S) :]

    def build_context(self, h_SE: torch.Tensor) -> torch.Tensor:
        """The merged support."""
        return h_SE

    def predict(self, context: torch.Tensor, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes."""
        with torch.no_grad():
            return self.head(torch.cat([context, h_QE]))[:, : self.n_classes]

    def footprint(self, width: int) -> Footprint:
        """Support and query rows cost the same: they go through the model together."""
        row = self.row_bytes(width)
        return Footprint(scratch=len(self.y_S) * row, cache=0, support_row=0, query_row=row, summary_row=row)

    def shrink_blocks(self, limit: int) -> None:
        """Nothing: these models take a leaf whole."""


class JointTokenView(JointView):
    """A view of a model that keeps a feature-token axis."""

    group: int

    @abstractmethod
    def tokens(self, x_TW: torch.Tensor) -> torch.Tensor:
        """Tokens of rows that begin with the support, without a position: tokens_TFE."""

    @abstractmethod
    def head(self, tokens_TBE: torch.Tensor) -> torch.Tensor:
        """Positions, context encoder and head on rows that begin with the support: logits_Q*, all outputs."""

    def n_tokens(self, leaf: IntArray) -> int:
        """Number of tokens of a leaf; its last group may be incomplete."""
        return -(-len(leaf) // self.group)

    def tokenize_support(self, leaf: IntArray) -> tuple[torch.Tensor, Step]:
        """Tokens of the support rows, and the fitted preprocessing."""
        with torch.no_grad():
            step = self.fit(self._numbers.columns(leaf))
            return self.tokens(self._both(leaf, step, None)), step

    def tokenize_query(self, leaf: IntArray, state: Step, rows: Table) -> torch.Tensor:
        """Tokens of query rows, beside the support."""
        with torch.no_grad():
            return self.tokens(self._both(leaf, state, rows))[len(self.y_S) :]

    def build_context(self, tokens_SBE: torch.Tensor) -> torch.Tensor:
        """The folded support."""
        return tokens_SBE

    def predict(self, context: torch.Tensor, tokens_QBE: torch.Tensor) -> torch.Tensor:
        """Positions, context encoder and head: logits in the order of the class codes."""
        with torch.no_grad():
            return self.head(torch.cat([context, tokens_QBE]))[:, : self.n_classes]


def fill_means(block: npt.NDArray[np.floating], then: Any = None) -> Step:
    """Fill holes with the support's means.

    Parameters
    ----------
    block : ndarray
        Support rows of some columns.
    then : transformer, optional
        What follows; it is fitted here.
    """
    imputer = SimpleImputer(keep_empty_features=True).fit(block)
    if then is None:
        return lambda rows: np.asarray(imputer.transform(rows))
    then.fit(imputer.transform(block))
    return lambda rows: np.asarray(then.transform(imputer.transform(rows)))
