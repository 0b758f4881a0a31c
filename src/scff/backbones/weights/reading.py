"""Reading checkpoints without running any code from them, and telling one layout from another."""

from __future__ import annotations

import math
import threading
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import torch
from torch import nn
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.overrides import TorchFunctionMode

from scff.errors import CheckpointError, CheckpointMissing

__all__ = [
    "beside",
    "config_and_state",
    "fitting",
    "has_tensors",
    "load_torch",
    "payload_of",
    "read_once",
    "safetensors_header",
]


#: What was read within `read_once`, by path; what could not be is an error.
_read: ContextVar[dict[Path, Any] | None] = ContextVar("read", default=None)


@contextmanager
def read_once() -> Iterator[None]:
    """Read a file once, however many ask what it holds; nothing is kept afterwards."""
    token = _read.set({})
    try:
        yield
    finally:
        _read.reset(token)


def load_torch(path: Path) -> Any:
    """Read a torch checkpoint without running any code from it.

    Raises
    ------
    CheckpointMissing, CheckpointError
        If there is no such file, or it cannot be read.
    """
    known = _read.get()
    if known is None:
        return _load_torch(path)
    if path not in known:
        try:
            known[path] = _load_torch(path)
        except CheckpointError as error:
            known[path] = error
    if isinstance(known[path], CheckpointError):
        raise known[path]
    return known[path]


def _load_torch(path: Path) -> Any:
    """The same, from the file."""
    if not path.is_file():
        raise CheckpointMissing(f"There is no checkpoint at {path}; check the path given as backbone.")
    try:
        if zipfile.is_zipfile(path):  # torch compresses nothing, and reads what others did
            with zipfile.ZipFile(path) as archive:
                if sum(entry.file_size for entry in archive.infolist()) > path.stat().st_size:
                    raise ValueError("its parts say that they are larger than the file")
        return torch.load(path, map_location="cpu", weights_only=True)
    except Exception as error:  # torch raises half a dozen unrelated types for a damaged file
        kind = "is damaged" if zipfile.is_zipfile(path) else "is not a torch checkpoint, or half a download"
        said = (str(error).splitlines() or [""])[0][:120]
        raise CheckpointError(
            f"{path} {kind} ({type(error).__name__}: {said}); "
            "delete it and fetch it again, or pass the path of another one."
        ) from error


def payload_of(path: Path) -> Any:
    """What a torch checkpoint holds, None for a file of the other format: for telling layouts apart."""
    return None if path.suffix == ".safetensors" else load_torch(path)


def safetensors_header(path: Path) -> tuple[frozenset[str], dict[str, str]]:
    """Names of the tensors in a safetensors file and its metadata; both empty for a file of another kind.

    Raises
    ------
    CheckpointError
        If the file is damaged.
    """
    if path.suffix != ".safetensors":
        return frozenset(), {}
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return frozenset(file.keys()), dict(file.metadata() or {})
    except (SafetensorError, OSError) as error:
        raise CheckpointError(
            f"{path} cannot be read as safetensors ({error}); delete it and fetch it again, or pass another path."
        ) from error


def has_tensors(path: Path, *, prefix: str) -> bool:
    """Whether a safetensors file has tensors whose names begin like that."""
    return any(key.startswith(prefix) for key in safetensors_header(path)[0])


def beside(path: Path, filename: str) -> Path:
    """A file that must stand next to a checkpoint.

    Raises
    ------
    CheckpointError
        If it does not.
    """
    other = path.parent / filename
    if not other.is_file():
        raise CheckpointError(f"There is no {filename} beside {path}, which needs it; fetch both again.")
    return other


def config_and_state(payload: Any) -> tuple[dict[str, Any], dict[str, Any]] | None:
    """Configuration and weights of a checkpoint ``{"config", "state_dict"}``; None for one of another layout."""
    if not isinstance(payload, dict):
        return None
    config, state = payload.get("config"), payload.get("state_dict")
    return (config, state) if isinstance(config, dict) and isinstance(state, dict) else None


#: What makes a tensor of a size that is its arguments'.
_MAKERS = {torch.empty, torch.zeros, torch.ones, torch.full, torch.rand, torch.randn, torch.eye, torch.arange}
#: What draws the values of a tensor.
_DRAWS = {
    *(torch.Tensor.uniform_, torch.Tensor.normal_, nn.init.uniform_, nn.init.normal_, nn.init.trunc_normal_),
    *(nn.init.xavier_uniform_, nn.init.xavier_normal_, nn.init.kaiming_uniform_, nn.init.kaiming_normal_),
}
#: Values of a tensor that is no parameter, such as a table of positions, that even a small file may ask for.
_BUFFER = 1 << 22


@contextmanager
def fitting(path: Path, *errors: type[Exception], draw: bool = True) -> Iterator[None]:
    """Build a network and read its weights: what goes wrong is the file's fault, and no random state is spent.

    Every parameter takes at least a byte of the file, so a configuration that asks for more of them than the file has
    bytes is refused as soon as it does.

    Parameters
    ----------
    path : Path
        The checkpoint, for the message.
    *errors : type
        What the network's class raises for weights that do not fit; torch's own errors by default.
    draw : bool, default=True
        Whether values are drawn on the way. Drawing takes longer than reading; a network whose tensors are all read
        afterwards needs none of it.
    """
    usual: tuple[type[Exception], ...] = errors or (TypeError, RuntimeError, ValueError)
    expected: tuple[type[Exception], ...] = (*usual, ArithmeticError, AssertionError, MemoryError)
    try:
        # Building a network draws weights before they are read.
        with torch.random.fork_rng(devices=[]), _at_most(path.stat().st_size, draw):
            yield
    except CheckpointError:
        raise
    except expected as error:
        said = (str(error).strip().splitlines() or [type(error).__name__])[0]
        raise CheckpointError(
            f"The weights in {path} do not fit their own configuration ({said[:160]}); fetch the file again."
        ) from error


@contextmanager
def _at_most(parameters: int, draw: bool) -> Iterator[None]:
    """Refuse a network of more parameters while it is built in this thread."""
    here, counted = threading.get_ident(), 0

    def count(module: nn.Module, name: str, parameter: torch.Tensor | None) -> None:
        nonlocal counted
        if parameter is None or threading.get_ident() != here:
            return
        counted += max(1, parameter.numel())  # endless layers of nothing are something too
        if counted > parameters:
            raise ValueError(f"it asks for more parameters than the file has bytes, {parameters:,}")

    hook = register_module_parameter_registration_hook(count)
    try:
        with _Sized(max(parameters, _BUFFER), draw):
            yield
    finally:
        hook.remove()


class _Sized(TorchFunctionMode):
    """Looks at the size of every new tensor before it takes memory; torch's ``meta`` device would take seconds."""

    def __init__(self, most: int, draw: bool) -> None:
        super().__init__()
        self._most, self._draw = most, draw

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func in _MAKERS:
            sizes = args[0] if args and isinstance(args[0], tuple | list) else args
            sizes = (kwargs or {}).get("size", sizes)
            if math.prod(abs(n) for n in sizes if isinstance(n, int) and not isinstance(n, bool)) > self._most:
                raise ValueError(f"it asks for more parameters than the file has bytes, {self._most:,}")
        if func in _DRAWS and not self._draw:
            tensor = args[0] if args else (kwargs or {})["tensor"]
            # A value that could have been drawn: torch draws a truncated normal again until all values lie within.
            mean = (*args[1:2], (kwargs or {}).get("mean", 0.0))[0] if func is torch.Tensor.normal_ else 0.0
            with torch.no_grad():
                return tensor.fill_(mean)
        return func(*args, **(kwargs or {}))
