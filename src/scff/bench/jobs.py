"""Jobs: the arms that are compared on one fold of one table, run together or not counted."""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from filelock import FileLock, Timeout

from scff.backbones.registry import canonical, locate, specs
from scff.backbones.weights import checkpoints
from scff.bench.arms import Arm, get_arm, groups
from scff.bench.folds import Protocol
from scff.bench.loaded import digest_of, load
from scff.bench.metrics import measure
from scff.bench.panels import Dataset
from scff.bench.records import CellKey, Record, RecordStore, Reuse
from scff.bench.results import peak_of
from scff.bench.variants import Task, Variant, make_task
from scff.bench.worker import ArmRequest, ArmResult, host_fingerprint, run_isolated, run_shared, source_hash
from scff.errors import DataError, SCFFError
from scff.memory.device import resolve_device

__all__ = ["Job", "Outcome", "RunSettings", "backbone_name", "checkpoint_of", "clip_grid", "run_job"]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class RunSettings:
    """How jobs are run.

    Attributes
    ----------
    root : Path
        Results folder.
    backbone, checkpoint_sha256 : str
        Name or path, and the digest of its weights.
    protocol : Protocol
    device : str
    threads : int
        Threads of each arm's process.
    time_limit : float or None
        Seconds an arm may take.
    reuse : {"yes", "present", "no", "only"}
        Which records are reused: "present" those of the present code, "no" none, "only" runs nothing.
    retry_failed : bool
        Run cells again that failed before.
    repeats : int
        Timed predictions per cell; the median counts.
    """

    root: Path
    backbone: str
    checkpoint_sha256: str
    protocol: Protocol
    device: str = "auto"
    threads: int = 1
    time_limit: float | None = None
    reuse: Reuse = "yes"
    retry_failed: bool = False
    repeats: int = 1

    def key(self, job: Job, arm: Arm) -> CellKey:
        """The cell of an arm in a job; a baseline's is the same for every backbone."""
        name, checkpoint = "baseline", "none"
        if arm.needs_backbone:
            name = backbone_name(self.backbone)
            checkpoint = self.checkpoint_sha256[:12]
        return CellKey(self.protocol.name, name, checkpoint, job.dataset.name, job.variant.name, job.fold, arm.name)


@dataclass(frozen=True)
class Job:
    """Arms that are compared on one fold of one table.

    Attributes
    ----------
    dataset : Dataset
    fold : int
    variant : Variant
    arms : tuple of str
    prefix_grid : tuple of int
        Widths of single leaves to add; clipped to the Core's width K, with K itself.
    costed : bool
        Whether time and memory are asked for; without, the arms share a process.
    """

    dataset: Dataset
    fold: int
    variant: Variant
    arms: tuple[str, ...]
    prefix_grid: tuple[int, ...] = ()
    costed: bool = True

    @property
    def cost(self) -> float:
        """A rough weight for ordering and for the time to go: a wide or a long table counts more."""
        rows = min(self.variant.context or 2048, self.dataset.rows or 1000)
        return (
            len(self.arms) * float(200 + (self.dataset.features or 100) + self.variant.nuisance) * (0.3 + rows / 1000)
        )


@dataclass(frozen=True)
class Outcome:
    """Cells of a job: run now, found, missing, why arms failed or were excluded, and whether another run holds it."""

    run: int = 0
    found: int = 0
    missing: int = 0
    reasons: tuple[tuple[str, str], ...] = ()
    busy: bool = False


def backbone_name(backbone: str) -> str:
    """What records call a backbone: its one name, whatever alias was typed; a checkpoint's by its file."""
    name = canonical(backbone)
    return name if name in specs() else Path(name).stem


def checkpoint_of(backbone: str) -> str:
    """Sha256 of a backbone's weights; downloads them only if they are nowhere on this machine."""
    return checkpoints.sha256(locate(backbone)[1])


def run_job(job: Job, settings: RunSettings) -> Outcome:
    """Run what is missing of one job, holding its lock.

    Only one process works on a job at a time; another one that comes by gets a "busy" outcome and may look again. The
    lock belongs to the operating system, so it goes with a killed process.
    """
    store = RecordStore(settings.root)
    name = settings.key(job, get_arm("native"))
    digest = hashlib.sha256(str(name).encode()).hexdigest()[:24]
    locks = settings.root / "locks"
    locks.mkdir(parents=True, exist_ok=True)
    try:
        with FileLock(locks / f"{digest}.lock", timeout=0):
            return _run_locked(job, settings, store)
    except Timeout:
        return Outcome(busy=True)


def _run_locked(job: Job, settings: RunSettings, store: RecordStore) -> Outcome:
    protocol, width = settings.protocol, job.dataset.features
    found = dict[str, Record | None].fromkeys(job.arms)
    try:
        found = _found(job, settings, store)
        if settings.reuse == "only" or (all(found.values()) and settings.reuse != "no"):
            return _count({arm: record for arm, record in found.items() if record}, set(), len(found))
        if protocol.max_features is not None and width is not None and width > protocol.max_features:
            most = f"takes tables up to {protocol.max_features} columns"
            raise DataError(f"the protocol {protocol.name!r} {most}, this has {width}")
        task = make_task(job.dataset, load(job.dataset), job.fold, protocol, job.variant)
    except SCFFError as error:
        return _exclude(found, job, settings, store, str(error))
    if settings.reuse == "no":
        found = dict.fromkeys(job.arms)
    ran = set[str]()
    while True:
        records, now = _run_arms(task, job, settings, store, found)
        ran |= now
        wider = {name: record for name, record in _found(job, settings, store).items() if name not in records}
        if not wider:
            return _count(records, ran, len(records))
        found = {**records, **(dict.fromkeys(wider) if settings.reuse == "no" else wider)}


def _found(job: Job, settings: RunSettings, store: RecordStore) -> dict[str, Record | None]:
    """The arms of a job with their records, as far as there are any.

    Of single leaves the widest within the folded Core's peak is asked for: they are measured down to the first that is.
    """

    def usable(arm: Arm) -> Record | None:
        return _usable(store.read(settings.key(job, arm)), arm, job, settings)

    found = {name: usable(get_arm(name)) for name in job.arms}
    folded = found.get("bounded-core")
    if job.prefix_grid and folded is not None and folded.ok:
        for k in reversed(clip_grid(job.prefix_grid, folded.plan["core"])):
            record = found[f"prefix-{k}"] = usable(get_arm(f"prefix-{k}"))
            if record is None or (record.ok and peak_of(record) <= peak_of(folded)):
                break
    return found


def _run_arms(
    task: Task,
    job: Job,
    settings: RunSettings,
    store: RecordStore,
    found: dict[str, Record | None],
) -> tuple[dict[str, Record], set[str]]:
    """Run missing arms with one query chunk for all; when one runs out of memory, all start over with half of it."""
    chunk = min([r.query_chunk for r in found.values() if r and r.ok] + [settings.protocol.query_chunk])
    records: dict[str, Record] = {name: r for name, r in found.items() if r and (not r.ok or r.query_chunk == chunk)}
    ran: set[str] = set()
    while True:
        for group in groups([get_arm(name) for name in found if name not in records], job.costed):
            requests = [_request(task, settings, arm, chunk) for arm in group]
            limit = settings.time_limit
            results = run_shared(requests, limit) if len(group) > 1 else [run_isolated(requests[0], limit)]
            if chunk > 1 and any(result.status == "oom" for result in results):
                chunk //= 2
                logger.info("%s ran out of memory; all arms again with query chunks of %d", group[0].name, chunk)
                records = {}
                break
            for arm, result in zip(group, results, strict=True):
                record = _record(task, job, settings, arm, chunk, result)
                store.write(record)
                records[arm.name] = record
                ran.add(arm.name)
        else:
            return records, ran


def _request(task: Task, settings: RunSettings, arm: Arm, chunk: int) -> ArmRequest:
    data = (task.X_support, task.y_support, task.X_query)
    return ArmRequest(arm, settings.backbone, settings.device, *data, chunk, settings.threads, settings.repeats)


def _record(task: Task, job: Job, settings: RunSettings, arm: Arm, chunk: int, result: ArmResult) -> Record:
    device = str(resolve_device(settings.device))
    record = Record(
        key=settings.key(job, arm),
        status="ok" if result.status == "ok" else "failed",
        reason=result.reason if result.status != "oom" else f"out of memory: {result.reason}",
        settings_hash=arm.settings_hash,
        data_digest=task.digest,
        support_hash=task.split.support_hash,
        query_hash=task.split.query_hash,
        n_support=len(task.y_support),
        n_query=len(task.y_query),
        n_columns=task.X_support.shape[1],
        n_classes=len(np.unique(task.y_support)),
        n_groups=task.n_groups,
        query_chunk=chunk,
        checkpoint_sha256=settings.checkpoint_sha256 if arm.needs_backbone else "",
        host=host_fingerprint(settings.threads, device),
    )
    if result.status != "ok":
        return record
    if result.checkpoint_sha256 != record.checkpoint_sha256:  # the file was replaced while the study ran
        return replace(record, status="failed", reason="the weights changed during the run; start it again")
    if not np.isfinite(result.proba).all():
        return replace(record, status="failed", reason="a predicted probability is not finite")
    return replace(
        record,
        metrics=measure(result.proba, result.classes, task.y_query),
        seconds=result.seconds,
        repeats=settings.repeats,
        memory=result.memory,
        plan=result.plan,
        gate=result.gate,
        verdict=result.verdict,
        probability_hash=hashlib.sha256(np.ascontiguousarray(result.proba).tobytes()).hexdigest(),
    )


def clip_grid(grid: Iterable[int], core: int) -> list[int]:
    """The widths below the Core's, and the Core's own."""
    return [k for k in sorted(grid) if k < core] + [core]


def _usable(record: Record | None, arm: Arm, job: Job, settings: RunSettings) -> Record | None:
    """A record that still says what would be measured now. Why a table was excluded is asked anew: that runs no arm."""
    if record is None or record.status == "excluded" or (settings.retry_failed and not record.ok):
        return None
    if (now := digest_of(job.dataset)) and record.data_digest != now:  # another file, or another question about it
        return None
    if settings.reuse == "present" and record.host.get("source") != source_hash():
        return None
    if record.ok and record.repeats < settings.repeats:  # a single, cold timing beside the median of several
        return None
    return record if record.settings_hash == arm.settings_hash else None


def _exclude(
    found: Mapping[str, Record | None], job: Job, settings: RunSettings, store: RecordStore, reason: str
) -> Outcome:
    """Say of every arm without a usable record why it has none."""
    records = {name: record for name, record in found.items() if record}
    for arm in (get_arm(name) for name in found if name not in records):
        records[arm.name] = Record(settings.key(job, arm), "excluded", reason, arm.settings_hash)
        store.write(records[arm.name])
    return _count(records, set(), len(records))


def _count(records: dict[str, Record], ran: set[str], total: int) -> Outcome:
    reasons = tuple((name, record.reason) for name, record in records.items() if not record.ok)
    run = sum(records[name].ok for name in ran if name in records)
    return Outcome(run, len(records) - len(reasons) - run, total - len(records), reasons)
