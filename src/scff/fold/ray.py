"""Leaves on a Ray cluster.

Leaves are independent, so a stratum is cut into runs of neighbouring leaves and each run is one task: it encodes its
leaves in order and sends back one sum. The sums are added in order too, so a result does not depend on who was fastest.
What a run keeps for queries stays in the cluster's object store. Tasks have no state of their own: when a worker dies,
Ray runs its task again on another.
"""

from __future__ import annotations

import io
import pickle
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

import numpy as np
import torch

from scff.backbones.base import IntArray, LeafCache, RowView
from scff.errors import DataError, SCFFError
from scff.fold.encode import FoldOptions, Queries, add_messages, equal_width
from scff.tables.table import Table

__all__ = ["RETRIES", "RayEngine", "connect", "resources", "result_of", "share", "unpacked"]

RETRIES = 5
# Runs per core: enough that a slow core does not hold up the rest, few enough that sums are rarely sent.
_RUNS_PER_CORE = 4


def connect() -> Any:
    """The ray module, connected to a cluster: the one in use, the one ``RAY_ADDRESS`` names, or a new local one.

    Raises
    ------
    DataError
        If Ray is not installed.
    """
    try:
        import ray
    except ImportError as error:
        raise DataError('engine="ray" needs Ray; install it with: pip install ray') from error
    if not ray.is_initialized():
        ray.init(log_to_driver=False)
    return ray


def resources(device: torch.device) -> dict[str, float]:
    """What a task asks the cluster for: a whole accelerator where the model is on one, otherwise a core.

    Examples
    --------
    >>> resources(torch.device("cpu")), resources(torch.device("cuda", 0))
    ({'num_cpus': 1}, {'num_gpus': 1})

    Raises
    ------
    DataError
        For devices that Ray does not hand out.
    """
    if device.type not in ("cpu", "cuda"):
        raise DataError(f'engine="ray" hands out CPUs and CUDA devices, not {device.type}; pass device="cpu".')
    return {"num_cpus": 1} if device.type == "cpu" else {"num_gpus": 1}


class RayEngine:
    """Encodes leaves on a Ray cluster.

    Parameters
    ----------
    options : FoldOptions
        Blocks of every worker.
    most : int
        Most leaves of a task: a worker holds what all of them keep for queries before it hands them over.
    """

    def __init__(self, options: FoldOptions, most: int = 8) -> None:
        self._resources = resources(options.device)
        self._ray = connect()
        self._options = options
        self.pass_rows, self.audits = options.pass_rows, options.audits
        self._most = most
        self._views: dict[int, list[Any]] = {}

    def encode(self, view: RowView, leaves: Sequence[IntArray], label: str) -> RayStratum:
        """Encode the support rows of all leaves of a stratum."""
        task = self._ray.remote(_encode_support).options(num_returns=2, max_retries=RETRIES, **self._resources)
        wanted = "GPU" if "num_gpus" in self._resources else "CPU"
        cores = max(1, int(self._ray.cluster_resources().get(wanted, 1)))
        size = min(self._most, -(-len(leaves) // (_RUNS_PER_CORE * cores)))
        runs = [leaves[i : i + size] for i in range(0, len(leaves), size)]
        shared = self._share(view)
        sent = [task.remote(shared, list(run), self._options) for run in runs]
        mean = _sum(self._ray, [total for total, _ in sent]) / len(leaves)
        mean = mean.to(self._options.device)
        return RayStratum(self._ray, shared, [kept for _, kept in sent], len(leaves), mean, self._options.device)

    def queries(self, view: RowView, rows: Table) -> Any:
        """Put query rows where every worker can read them."""
        return self._ray.put((rows, self._options.query_chunk))

    def _share(self, view: RowView) -> list[Any]:
        if id(view) not in self._views:
            self._views[id(view)] = share(self._ray, view)
        return self._views[id(view)]


class RayStratum:
    """Encoded leaves whose caches are in the cluster's object store."""

    def __init__(
        self, ray: Any, view: list[Any], kept: list[Any], n_leaves: int, mean_SE: torch.Tensor, device: torch.device
    ) -> None:
        self._ray, self._view, self._kept, self._n_leaves = ray, view, kept, n_leaves
        self._device, self.mean_SE = device, mean_SE

    def query(self, queries: Any) -> torch.Tensor:
        """Mean message_QE of query rows."""
        task = self._ray.remote(_encode_query).options(max_retries=RETRIES, **resources(self._device))
        sent = [task.remote(self._view, kept, queries, self._device) for kept in self._kept]
        return (_sum(self._ray, sent) / self._n_leaves).to(self._device)

    def drop(self) -> None:
        """Let the object store free the caches."""
        self._kept = []


def _encode_support(
    shared: list[Any], leaves: Sequence[IntArray], options: FoldOptions
) -> tuple[np.ndarray[Any, Any], list[tuple[tuple[IntArray, ...], dict[str, np.ndarray[Any, Any]], Any]]]:
    """On a worker: the sum of the messages of a run of leaves, and what its queries will need."""
    view = unpacked(shared)
    total: torch.Tensor | None = None
    kept = []
    for group in equal_width(leaves, options.leaf_batch):
        message_GSE, cache = view.encode_support(group)
        total = add_messages(total, message_GSE)
        # As arrays: Ray stores those without a copy.
        kept.append((group, {name: tensor.cpu().numpy() for name, tensor in cache.tensors.items()}, cache.state))
    assert total is not None
    return total.cpu().numpy(), kept


def _encode_query(shared: list[Any], kept: Any, rows: tuple[Table, int], device: torch.device) -> np.ndarray[Any, Any]:
    """On a worker: the sum of the messages of query rows over a run of leaves."""
    view = unpacked(shared)
    queries = Queries(view, *rows)
    total: torch.Tensor | None = None
    for group, arrays, state in kept:
        # The object store is read-only and torch wants to be able to write: a copy, one group at a time.
        tensors = {name: torch.from_numpy(array.copy()).to(device) for name, array in arrays.items()}
        total = add_messages(total, queries.encode(group, LeafCache(tensors, state)))
    assert total is not None
    out: np.ndarray[Any, Any] = total.cpu().numpy()
    return out


_stored: WeakKeyDictionary[torch.nn.Module, tuple[Any, Any]] = WeakKeyDictionary()
_networks_here: WeakValueDictionary[Any, torch.nn.Module] = WeakValueDictionary()
_unpacked_here: OrderedDict[Any, Any] = OrderedDict()


def share(ray: Any, what: Any) -> list[Any]:
    """Put something into the object store, and the networks in it once, however many things refer to them.

    Frozen weights are most of a view. The references come in a list, so that Ray hands them over as they are and a
    worker unpacks what they stand for once, not per task.
    """
    networks: dict[Any, int] = {}
    context = ray.get_runtime_context()
    cluster = context.get_node_id(), context.get_job_id()  # a new cluster counts its jobs from one again

    class Pickler(ray.cloudpickle.CloudPickler):  # type: ignore[misc]
        def persistent_id(self, found: Any) -> int | None:
            if not isinstance(found, torch.nn.Module):
                return None
            if found not in _stored or _stored[found][0] != cluster:
                _stored[found] = cluster, ray.put(found)
            return networks.setdefault(_stored[found][1], len(networks))

    # Arrays stay apart: workers of one machine read them where they are.
    arrays: list[pickle.PickleBuffer] = []
    packed = io.BytesIO()
    Pickler(packed, protocol=5, buffer_callback=arrays.append).dump(what)
    return [ray.put((packed.getvalue(), arrays)), *networks]


def unpacked(shared: list[Any]) -> Any:
    """What references stand for; this worker keeps the last few things, with all they have compiled."""
    import ray

    reference, *networks = shared

    class Unpickler(pickle.Unpickler):
        def persistent_load(self, number: int) -> torch.nn.Module:
            found = _networks_here.get(networks[number])
            if found is None:
                found = _networks_here[networks[number]] = ray.get(networks[number])
            return found

    if reference not in _unpacked_here:
        packed, arrays = ray.get(reference)
        _unpacked_here[reference] = Unpickler(io.BytesIO(packed), buffers=arrays).load()
        while len(_unpacked_here) > 2:
            _unpacked_here.popitem(last=False)
    _unpacked_here.move_to_end(reference)
    return _unpacked_here[reference]


def _sum(ray: Any, sent: Sequence[Any]) -> torch.Tensor:
    """Add up what tasks send back, in the order they were sent."""
    total: torch.Tensor | None = None
    for reference in sent:
        part = torch.from_numpy(np.array(result_of(ray, reference)))
        total = part if total is None else total.add_(part)
    assert total is not None
    return total


def result_of(ray: Any, reference: Any) -> Any:
    """What a task gave; an error of this library comes out as it was raised."""
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        # A sentence of this library stays that sentence, wherever it was written.
        cause = error.cause if isinstance(error.cause, SCFFError) else None
        raise cause or error from error
    except ray.exceptions.WorkerCrashedError as error:
        raise DataError(
            f"Ray gave up after {RETRIES} workers died on one task, most likely for want of memory; set memory_limit, "
            "or start fewer workers per machine."
        ) from error
