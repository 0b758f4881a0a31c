"""Commands that are killed, and commands that lack room, descriptors or a temporary folder.

Each runs in a child forked from this process, so that a kill comes in the middle of its work and not of its imports.
Whatever happens, a file that was there is whole, old or new, and after the next run nothing else is left.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hostile.judging import sentence
from scff.cli.main import main

SIGNALS = [signal.SIGKILL, signal.SIGTERM, signal.SIGINT]
DELAYS = [0.02, 0.15, 0.4, 0.8]
OLD = b"what was here before"


@pytest.fixture(scope="module")
def weights(checkpoint_dir):
    return checkpoint_dir / "v2.ckpt"


@pytest.fixture(scope="module")
def source(tmp_path_factory, weights):
    """A table and a model of it, whose weights are looked for beside them."""
    folder = tmp_path_factory.mktemp("source")
    rng = np.random.default_rng(0)
    y = np.arange(60) % 2
    frame = pd.DataFrame(rng.normal(size=(60, 300)) + 0.4 * y[:, None], columns=[f"g{j}" for j in range(300)])
    frame["y"] = np.where(y, "yes", "no")
    frame.to_csv(folder / "train.csv", index=False)
    code, _ = scff(["fit", folder / "train.csv", "-t", "y", "-b", weights, "--method", "scff", "-o", folder / "m.scff"])
    assert code == 0
    (folder / weights.name).write_bytes(weights.read_bytes())
    return folder


def commands(source, weights, output):
    """What is run, and the file it writes."""
    table, model = source / "train.csv", source / "m.scff"
    return {
        "plan": (["plan", table, "-t", "y", "-o", output / "plan.json"], output / "plan.json"),
        "fit": (
            ["fit", table, "-t", "y", "-b", weights, "--method", "scff", "-o", output / "model.scff"],
            output / "model.scff",
        ),
        "predict": (["predict", model, table, "-o", output / "out.csv"], output / "out.csv"),
        "report": (["report", model, "-o", output / "out.html"], output / "out.html"),
    }


def scff(args, *, temporary=None, limits=(), stop=None):
    """Run a command in a child; its exit code (negative for a signal) and what it said."""
    said = Path(tempfile.gettempdir()) / f"scff-said-{os.getpid()}.log"
    child = os.fork()
    if child == 0:
        try:
            sys.stdout = sys.stderr = said.open("w", encoding="utf-8")
            signal.signal(signal.SIGINT, signal.default_int_handler)
            sys.argv = ["scff", *map(str, args)]
            if temporary is not None:
                os.environ["TMPDIR"] = tempfile.tempdir = str(temporary)
            for kind, value in limits:
                resource.setrlimit(kind, (value, value))
            signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
            main()
        except SystemExit as ended:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(int(ended.code or 0))
        except BaseException:
            traceback.print_exc()
            sys.stderr.flush()
            os._exit(99)
    if stop is not None:
        number, delay = stop
        time.sleep(delay)
        os.kill(child, number)
    _, status = os.waitpid(child, 0)
    text = said.read_text(errors="replace")
    said.unlink()
    return os.waitstatus_to_exitcode(status), text


def settled(folder, expected):
    """Assert that a folder holds this file, whole, and nothing else."""
    assert sorted(path.name for path in folder.iterdir()) == [expected.name]
    assert expected.stat().st_size > 0
    assert expected.read_bytes() != OLD


NAMES = ["plan", "fit", "predict", "report"]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("number", SIGNALS, ids=lambda number: number.name)
def test_a_killed_command_damages_nothing_and_leaves_nothing(source, weights, tmp_path, name, number, whole, tally):
    for delay in DELAYS if whole else DELAYS[1:2]:
        folder, temporary = tmp_path / f"out-{delay}", tmp_path / f"tmp-{delay}"
        folder.mkdir()
        temporary.mkdir()
        args, output = commands(source, weights, folder)[name]
        output.write_bytes(OLD)
        code, text = scff(args, temporary=temporary, stop=(number, delay))
        assert "Traceback" not in text, text
        assert code in (0, -number, 130, 143), (code, text)
        finished = output.read_bytes() != OLD
        assert finished or code != 0
        code, text = scff(args, temporary=temporary)
        assert code == 0, text
        settled(folder, output)
        assert list(temporary.iterdir()) == []
        tally("kills", "unharmed")


FAULTS = {
    "files end at 512 bytes": [(resource.RLIMIT_FSIZE, 512)],
    "no descriptors": [(resource.RLIMIT_NOFILE, 3)],
    "few descriptors": [(resource.RLIMIT_NOFILE, 6)],
}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("fault", FAULTS)
def test_a_command_without_room_or_descriptors_says_so(source, weights, tmp_path, name, fault, tally):
    folder = tmp_path / "out"
    folder.mkdir()
    args, output = commands(source, weights, folder)[name]
    output.write_bytes(OLD)
    code, text = scff(args, limits=FAULTS[fault])
    assert "Traceback" not in text, text
    assert code in (0, 2), (code, text)
    if code == 2:
        assert output.read_bytes() == OLD
        assert sorted(path.name for path in folder.iterdir()) == [output.name]
        if "files" not in fault:  # what it says would be cut off by the same limit
            sentence(text.strip().splitlines()[-1])
    code, text = scff(args)
    assert code == 0, text
    settled(folder, output)
    tally("faults", "unharmed")


@pytest.mark.parametrize("name", NAMES)
def test_a_command_without_a_temporary_folder_needs_none_or_says_so(source, weights, tmp_path, name, tally):
    folder = tmp_path / "out"
    folder.mkdir()
    args, _ = commands(source, weights, folder)[name]
    code, text = scff(args, temporary=tmp_path / "nowhere")
    assert code in (0, 2), (code, text)
    assert "Traceback" not in text, text
    tally("faults", "unharmed")


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A file system of 64 KiB."""
    folder = tmp_path_factory.mktemp("disk")
    done = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", folder], capture_output=True, check=False)
    if done.returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize("name", NAMES)
def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(source, weights, small_disk, name, tally):
    args, output = commands(source, weights, small_disk)[name]
    output.write_bytes(OLD)
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        for _ in range(1024):
            file.write(b"x" * 1024)
    code, text = scff(args)
    assert code == 2, text
    assert "No space left" in text
    sentence(text.strip().splitlines()[-1])
    assert output.read_bytes() == OLD
    assert sorted(path.name for path in small_disk.iterdir()) == sorted([output.name, "filler"])
    filler.unlink()
    output.unlink()
    tally("faults", "unharmed")
