"""TabPFN v1, whose input is 100 slots: folding lets it read more columns than it has.

The seam: a linear encoder of the slots is the feature encoder, the attention stack over rows the context encoder, an
MLP the head. Preprocessing is the released one, column by column and therefore leaf by leaf: z-score on the support
clipped at 100, soft clipping beyond four deviations, then every leaf scaled by 100/width and padded with zeros.

Native inference on more than 100 columns is the released package's ``subsample_features=True``: 100 columns drawn
without replacement. There the draw follows NumPy's global state; here the same generator is seeded with
``random_state``, so the view is the one the package has after ``numpy.random.seed(random_state)``. Constant columns
are put aside before the draw, not after, so a table whose varying columns fit is always read whole.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.arithmetic import Arithmetic
from scff.backbones.base import IntArray, LeafCache, Views
from scff.backbones.known.tabpfn import V1
from scff.backbones.shared.categories import OrdinalCodes
from scff.backbones.shared.probe import probed
from scff.backbones.shared.varying import several_values, varying
from scff.backbones.spec import BackboneSpec
from scff.backbones.tabpfn.v1_net import TabPFNv1Net
from scff.backbones.weights.reading import fitting, load_torch, payload_of
from scff.errors import CheckpointError
from scff.memory.budget import Footprint
from scff.tables.table import Table

__all__ = ["TabPFNv1Backbone", "TabPFNv1View", "load", "read", "recognises"]

_TEMPERATURE = 0.8
_N_SIGMA = 4.0


@dataclass(frozen=True)
class _Statistics:
    """What the support says about the columns of a leaf, each of shape (W,)."""

    mean: torch.Tensor
    std: torch.Tensor
    lower: torch.Tensor
    upper: torch.Tensor

    @classmethod
    def fit(cls, x_SW: torch.Tensor) -> _Statistics:
        mean, std = _moments(x_SW, ~torch.isnan(x_SW))
        std = std + 1e-6
        z_SW = ((x_SW - mean) / std).clip(-100, 100)
        low, high = _bounds(z_SW, ~torch.isnan(z_SW))
        # Bounds once more without what lies outside them, so that an outlier does not widen its own.
        inside = (z_SW >= low) & (z_SW <= high)
        low, high = _bounds(z_SW, inside)
        return cls(mean, std, low, high)

    def __call__(self, x_TW: torch.Tensor) -> torch.Tensor:
        z_TW = ((x_TW - self.mean) / self.std).clip(-100, 100)
        z_TW = torch.maximum(self.lower - torch.log1p(z_TW.abs()), z_TW)
        return torch.minimum(self.upper + torch.log1p(z_TW.abs()), z_TW)


@dataclass(frozen=True)
class _Rotation:
    """How far a view's columns and classes are rotated."""

    columns: int = 0
    classes: int = 0


class TabPFNv1Backbone:
    """A loaded TabPFN v1."""

    def __init__(self, spec: BackboneSpec, path: Path, model: TabPFNv1Net, device: torch.device) -> None:
        self.spec = spec
        self.path = path
        self.model = model.eval().to(device)
        self.device = device
        self.arithmetic = Arithmetic.of([], [model])

    def views(
        self, support: Table, y: IntArray, *, n_estimators: int, cache: bool, random_state: int
    ) -> Views[TabPFNv1View]:
        """Views of a support table; the second and later ones rotate columns and classes, as the package does."""
        codes = OrdinalCodes.fit(support)
        numbers = codes.transform(support)
        columns = varying(numbers, _several)
        rng = np.random.default_rng(random_state)
        n_classes = int(y.max()) + 1
        most = min(len(columns), self.model.slots)
        rotations = [_Rotation()]
        for _ in range(n_estimators - 1):
            rotations.append(_Rotation(int(rng.integers(most)), int(rng.integers(n_classes))))

        def build(i: int) -> TabPFNv1View:
            return TabPFNv1View(self, rotations[i], codes, numbers, columns, y, cache, random_state)

        return Views(len(rotations), build)

    def combine(self, logits: Sequence[npt.NDArray[np.float32]]) -> npt.NDArray[np.float64]:
        """Mean logits, then softmax at the released temperature."""
        mean = torch.from_numpy(np.mean(np.stack(logits), axis=0, dtype=np.float64))
        proba: npt.NDArray[np.float64] = torch.softmax(mean / _TEMPERATURE, dim=-1).numpy()
        return proba


class TabPFNv1View:
    """One view of one support table."""

    thread_safe = True  # nothing is kept between calls but what the support said

    def __init__(
        self,
        backbone: TabPFNv1Backbone,
        rotation: _Rotation,
        codes: OrdinalCodes,
        numbers: Table,
        columns: IntArray,
        y: IntArray,
        cache: bool,
        random_state: int,
    ) -> None:
        self.columns = columns
        self._net = backbone.model
        self._device = backbone.device
        self._rotation = rotation
        self._codes = codes
        self._numbers = numbers
        self._n_classes = int(y.max()) + 1
        self._y_S = torch.from_numpy((y + rotation.classes) % self._n_classes).float().to(self._device)
        self._cache = cache
        self._random_state = random_state

    def footprint(self, width: int) -> Footprint:
        """A few copies of a leaf's slots; the context has the support as each layer sees it, twice in the making."""
        size = 4 * self._net.encoder.out_features
        row = 4 * (4 * width + 3 * self._net.slots) + 2 * size
        return Footprint(scratch=0, cache=16 * width, support_row=row, query_row=row, summary_row=56 * size)

    def shrink_blocks(self, limit: int) -> None:
        """Nothing: a leaf is one small matrix product."""

    def native_bytes(self, width: int, n_query: int) -> int:
        """As one leaf, at most of the slots' width."""
        leaf = self.footprint(min(width, self._net.slots))
        return (len(self._y_S) + n_query) * (leaf.support_row + leaf.summary_row)

    def prepare(self, rows: Table) -> Table:
        """Encode categories, once for all leaves; numeric tables pass through."""
        return self._codes.transform(rows)

    def encode_support(self, leaves: Sequence[IntArray]) -> tuple[torch.Tensor, LeafCache]:
        """Feature encoder on the support rows of equal-width leaves; a leaf keeps its statistics only."""
        with torch.no_grad():
            blocks = [self._tensor(self._numbers, leaf) for leaf in leaves]
            fitted = tuple(_Statistics.fit(block) for block in blocks)
            slots = [self._slots(step(block)) for step, block in zip(fitted, blocks, strict=True)]
            return self._net.encode(torch.stack(slots)), LeafCache({}, fitted)

    def encode_query(self, leaves: Sequence[IntArray], cache: LeafCache, rows: Table) -> torch.Tensor:
        """Feature encoder on query rows, with the support's statistics."""
        with torch.no_grad():
            slots = [
                self._slots(step(self._tensor(rows, leaf))) for step, leaf in zip(cache.state, leaves, strict=True)
            ]
            return self._net.encode(torch.stack(slots))

    def build_context(self, h_SE: torch.Tensor) -> torch.Tensor:
        """The support as each layer sees it, or the merged support where nothing is to be kept."""
        with torch.no_grad():
            return self._net.support_states(h_SE, self._y_S) if self._cache else h_SE

    def predict(self, context: torch.Tensor, h_QE: torch.Tensor) -> torch.Tensor:
        """Context encoder and head: logits in the order of the class codes."""
        with torch.no_grad():
            states_LSE = context if self._cache else self._net.support_states(context, self._y_S)
            logits_QK = self._net.predict(states_LSE, h_QE)[:, : self._n_classes]
            return torch.roll(logits_QK, -self._rotation.classes, dims=1)

    def compile_native(self, columns: IntArray) -> Any:
        """The encoded view of these columns, or of 100 of them."""
        with torch.no_grad():
            columns = self.native_columns(columns)
            message, cache = self.encode_support([columns])
            return columns, cache, self.build_context(message[0])

    def native(self, compiled: Any, rows: Table) -> torch.Tensor:
        """The model's own inference on the columns it can take."""
        with torch.no_grad():
            columns, cache, context = compiled
            return self.predict(context, self.encode_query([columns], cache, self.prepare(rows))[0])

    def fitted(self, leaves: Sequence[IntArray]) -> tuple[_Statistics, ...]:
        """The statistics of leaves."""
        return tuple(_Statistics.fit(self._tensor(self._numbers, leaf)) for leaf in leaves)

    def native_tensors(self, compiled: Any) -> dict[str, torch.Tensor] | None:
        """The support as each layer sees it."""
        return {"context": compiled[2]}

    def native_from(self, columns: IntArray, tensors: dict[str, torch.Tensor]) -> Any:
        """What `compile_native` keeps, from its tensors."""
        columns = self.native_columns(columns)
        return columns, LeafCache({}, self.fitted([columns])), tensors["context"]

    def native_columns(self, columns: IntArray) -> IntArray:
        """The columns of native inference: all of these, or 100 of them drawn."""
        if len(columns) <= self._net.slots:
            return columns
        # The legacy generator on purpose: it is the one behind the package's `numpy.random.choice`.
        draw = np.random.RandomState(self._random_state).choice(len(columns), self._net.slots, replace=False)
        return columns[np.sort(draw)]

    def _tensor(self, numbers: Table, columns: IntArray) -> torch.Tensor:
        return torch.from_numpy(numbers.columns(columns)).float().to(self._device)

    def _slots(self, z_TW: torch.Tensor) -> torch.Tensor:
        """Scale by the share of used slots, rotate, and pad with zeros."""
        width = z_TW.shape[1]
        scaled_TW = torch.roll(z_TW / (width / self._net.slots), -(self._rotation.columns % width), dims=1)
        return torch.nn.functional.pad(scaled_TW, (0, self._net.slots - width))


def read(path: Path) -> TabPFNv1Net:
    """Build the model of a released file ``(state_dict, None, config)``.

    Raises
    ------
    CheckpointError
        If the file is not in that layout or its weights do not fit its configuration.
    """
    payload = load_torch(path)
    if not _has_layout(payload):
        raise CheckpointError(f"{path} is not a TabPFN v1 checkpoint: it is not (state_dict, optimiser, config).")
    # Read tensors become the parameters, no copy of them.
    state = {key.removeprefix("module."): _plain(value) for key, value in payload[0].items()}
    state.pop("criterion.weight", None)  # the training loss
    with fitting(path, KeyError, TypeError, RuntimeError, ValueError, draw=False):  # reading is strict
        model = TabPFNv1Net(payload[2])
        model.load_state_dict(state, strict=True, assign=True)
    return model


def _plain(value: Any) -> Any:
    return value.float().contiguous() if isinstance(value, torch.Tensor) else value


def load(path: Path, device: torch.device) -> TabPFNv1Backbone:
    """Load a released file."""
    # No package can have changed; but what a first pass touches of torch is then counted as loading, like everywhere.
    return probed(TabPFNv1Backbone(V1, path, read(path), device))


def _has_layout(payload: Any) -> bool:
    return (
        isinstance(payload, tuple)
        and len(payload) == 3
        and isinstance(payload[0], dict)
        and isinstance(payload[2], dict)
        and any(key.removeprefix("module.") == "encoder.weight" for key in payload[0])
    )


def recognises(path: Path) -> bool:
    """Whether a checkpoint has this layout."""
    return _has_layout(payload_of(path))


def _moments(x_SW: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Mean and sample deviation of the entries a mask shows."""
    count = mask.sum(dim=0).to(x_SW.dtype)
    zero = torch.zeros((), dtype=x_SW.dtype, device=x_SW.device)
    mean = torch.where(mask, x_SW, zero).sum(dim=0) / count
    squares = torch.where(mask, mean - x_SW, zero).square().sum(dim=0)
    return mean, torch.sqrt(squares / (count - 1))


def _bounds(z_SW: torch.Tensor, mask: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    mean, std = _moments(z_SW, mask)
    return mean - _N_SIGMA * std, mean + _N_SIGMA * std


def _several(block: npt.NDArray[np.floating]) -> npt.NDArray[np.bool_]:
    """Columns with more than one value in single precision, in which the model reads them."""
    return several_values(block.astype(np.float32))
