"""What the support taught the backbone, beside a model in its file, and mapped from there when the model is read.

Tensors lie in the file as the processor uses them; pages of it come into memory as they are needed. They are of use to
the very versions of the packages that made them, on the same kind of device; anyone else compiles the model again.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch

from scff.estimators.fitted import Fitted
from scff.fold.kept import Kept, keep
from scff.models.tensors import Misfit, Stored
from scff.trials.case import LANDMARKS
from scff.trials.folds import spread
from scff.trials.remembered import shapes

__all__ = ["describe_caches", "read_caches"]

_KINDS = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "BOOL": torch.bool,
}
_NAMES = {kind: name for name, kind in _KINDS.items()}

#: Where lies what is known of the rows without a label; the caches of readings have the reading's number there.
_ROWS = "rows/"


def describe_caches(fitted: Fitted) -> tuple[list[list[str | None]], dict[str, Stored]]:
    """The layout of every view of every reading, None where nothing is kept, and the tensors by their place."""
    layouts: list[list[str | None]] = []
    tensors: dict[str, Stored] = {}
    for i, reading in enumerate(fitted.readings):
        kept = [keep(view) for view in reading.views]
        layouts.append([None if one is None else one.layout for one in kept])
        for j, one in enumerate(kept):
            for name, tensor in ({} if one is None else one.tensors).items():
                tensors[f"{i}/{j}/{name}"] = _stored(tensor)
    for name, array in fitted.compiled()[0].remembered().items():
        tensors[_ROWS + name] = Stored.of(array)
    return layouts, tensors


def read_caches(data: Any, tensors: dict[str, Stored], fitted: Fitted) -> None:
    """Give a record what `describe_caches` described.

    Raises
    ------
    Misfit
        If it is not that.
    """
    of_rows = {name.removeprefix(_ROWS): stored for name, stored in tensors.items() if name.startswith(_ROWS)}
    known = shapes(len(spread(fitted.y, LANDMARKS)), fitted.support.n_columns)
    recalled = {}
    for name, stored in of_rows.items():
        # Copied: they are small, and used in every prediction.
        array = stored.array().copy()
        if known.get(name) != (array.dtype, array.shape):
            raise Misfit("caches are not those of these rows")
        recalled[name] = array
    if (
        not isinstance(data, list)
        or len(data) != len(fitted.choices)
        or not all(isinstance(part, list) for part in data)
    ):
        raise Misfit("caches are not those of what is read")
    by_view: dict[tuple[str, str], dict[str, torch.Tensor]] = {}
    for name, stored in tensors.items():
        if name.startswith(_ROWS):
            continue
        reading, _, rest = name.partition("/")
        view, _, own = rest.partition("/")
        if stored.kind not in _KINDS:
            raise Misfit("a cache of a type that caches do not have")
        by_view.setdefault((reading, view), {})[own] = _tensor(stored)
    out = []
    for i, part in enumerate(data):
        if not all(layout is None or isinstance(layout, str) for layout in part):
            raise Misfit("caches without a layout")
        views = [(layout, by_view.pop((str(i), str(j)), {})) for j, layout in enumerate(part)]
        out.append(tuple(None if layout is None else Kept(layout, found) for layout, found in views))
    if by_view:
        raise Misfit("caches that belong to nothing")
    fitted._kept, fitted._recalled = tuple(out), recalled


def _stored(tensor: torch.Tensor) -> Stored:
    plain = tensor.detach().cpu().contiguous()
    return Stored(_NAMES[tensor.dtype], tuple(tensor.shape), plain.view(-1).view(torch.uint8).numpy())


def _tensor(stored: Stored) -> torch.Tensor:
    if stored.nbytes == 0:
        return torch.empty(stored.shape, dtype=_KINDS[stored.kind])
    # Through NumPy, which keeps the mapped file alive as long as the tensor.
    pages = torch.from_numpy(np.frombuffer(stored.data, dtype=np.uint8))
    return pages.view(_KINDS[stored.kind]).view(stored.shape)
