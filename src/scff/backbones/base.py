"""What a backbone is: two small protocols.

A **row backbone** has a fixed-width row representation between its feature encoder and its context encoder, so a wide
table can be encoded leaf by leaf and merged there. A **token backbone** keeps a feature-token axis to the end.

Shape legend: ``S`` support rows, ``Q`` query rows, ``G`` leaves of one group, ``W`` columns of a leaf, ``E``
representation width, ``K`` classes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.spec import BackboneSpec
from scff.memory.budget import Footprint
from scff.tables.table import Table

__all__ = [
    "Backbone",
    "LeafCache",
    "RowView",
    "TokenView",
    "View",
    "Views",
]

IntArray = npt.NDArray[np.int64]
V = TypeVar("V", covariant=True)


@dataclass
class LeafCache:
    """What a group of leaves keeps from the support so that queries need not see it again.

    Attributes
    ----------
    tensors : dict of str to Tensor
        The bulk; may be moved to disk and back.
    state : object
        The rest: fitted preprocessing, small and picklable.
    """

    tensors: dict[str, torch.Tensor]
    state: Any = None

    @property
    def nbytes(self) -> int:
        """Size of the tensors."""
        return sum(tensor.nbytes for tensor in self.tensors.values())


class View(Protocol):
    """What row and token views share.

    Attributes
    ----------
    columns : ndarray of int
        The user's columns that the preprocessing keeps.
    """

    columns: IntArray

    def native_bytes(self, width: int, n_query: int) -> int:
        """Estimate of what `native` adds on a table of that width."""
        ...

    def prepare(self, rows: Table) -> Any:
        """Bring query rows into the form in which they are encoded; done once per block of rows, not per leaf."""
        ...

    def compile_native(self, columns: IntArray) -> Any:
        """Whatever `native` can keep from the support, for these of the user's columns."""
        ...

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The upstream model's own inference on all those columns at once, call for call: logits_QK."""
        ...


@runtime_checkable
class RowView(View, Protocol):
    """One native view of one support table: the backbone's own preprocessing, and every call of the model.

    Attributes
    ----------
    thread_safe : bool, optional
        Whether leaves may be encoded, and other views of the model read, in several threads at once, after the first
        call; not where it is missing.
    """

    def footprint(self, width: int) -> Footprint:
        """What encoding a leaf of that width costs."""
        ...

    def shrink_blocks(self, limit: int) -> None:
        """Work in blocks small enough for a budget of so many bytes; nothing to do where there are no blocks."""
        ...

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Encode the support rows of leaves of equal width.

        Returns
        -------
        message_GSE : Tensor
            Row representations of each leaf.
        cache : LeafCache
            What `encode_query` needs for the same leaves.
        """
        ...

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: Any) -> torch.Tensor:
        """Encode prepared query rows of the same leaves; returns message_GQE."""
        ...

    def build_context(self, h_SE: torch.Tensor) -> Any:
        """Run the context encoder on the merged support, once. Must not change its argument."""
        ...

    def predict(self, context: Any, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head for merged query rows: logits_QK, in the order of the class codes."""
        ...


@runtime_checkable
class TokenView(View, Protocol):
    """One native view of one support table for a model that keeps a feature-token axis.

    Attributes
    ----------
    group : int
        Columns in a token.
    """

    group: int

    def n_tokens(self, leaf: IntArray) -> int:
        """Number of tokens of a leaf; its last group may be incomplete."""
        ...

    def tokenize_support(self, leaf: IntArray) -> tuple[torch.Tensor, Any]:
        """Tokens of the support rows without a position, tokens_SFE, and what `tokenize_query` needs of them."""
        ...

    def tokenize_query(self, leaf: IntArray, state: Any, rows: Any) -> torch.Tensor:
        """Tokens of prepared query rows without a position, tokens_QFE."""
        ...

    def build_context(self, tokens_SBE: torch.Tensor) -> Any:
        """What the model can keep of the folded support. Must not change its argument."""
        ...

    def predict(self, context: Any, tokens_QBE: torch.Tensor) -> torch.Tensor:
        """Positions, context encoder and head for folded query rows: logits_QK, in the order of the class codes."""
        ...


class Views(Generic[V]):
    """The ``n`` ensemble views of one support table, each made by ``build(i)`` when it is asked for.

    What all views share is prepared before; what is one view's own is built by `view` and not kept here, so a caller
    that needs the first pays for no other.
    """

    def __init__(self, n: int, build: Callable[[int], V]) -> None:
        self._n = n
        self._build = build

    def __len__(self) -> int:
        return self._n

    def view(self, i: int) -> V:
        """Build one of the views; 0 is the backbone's plain full-width one."""
        return self._build(i)


@runtime_checkable
class Backbone(Protocol):
    """A loaded model; ``spec.kind`` says whether its views give rows or tokens.

    It may have an ``arithmetic`` (:class:`scff.backbones.arithmetic.Arithmetic`); trials ask less of one that has not.
    """

    spec: BackboneSpec
    path: Path
    device: torch.device

    def views(
        self, support: Table, y: npt.NDArray[Any], *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[Any]:
        """The backbone's own ensemble views of a support table, each a `RowView` or a `TokenView`.

        Parameters
        ----------
        support : Table
        y : ndarray
            Class codes, or the numbers of a regressor.
        n_estimators : int
            How many views; one is the plain full-width one.
        cache : bool
            Whether views keep what they learn from the support.
        random_state : int
        """
        ...

    def combine(self, logits: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Class probabilities from the logits of every view, averaged as the backbone does."""
        ...
