"""Commands that are killed, and commands that lack room, descriptors or a temporary folder.

Whatever happens, a file that was there is whole, old or new; and after the next run everything is as if nothing had
happened: what the command writes is there and nothing else is.
"""

from __future__ import annotations

import contextlib
import getpass
import os
import re
import resource
import signal
import subprocess

import pytest

from hostile.judging import sentence
from hostile.works import OLD, SPEC, make_source, make_works, serve_index
from scff.backbones.registry import _SPECS, specs

NAMES = ["plan", "fit", "predict", "report", "evaluate", "bench", "fetch", "pretrain"]
TWO_WORKERS = ["evaluate in processes", "predict in processes", "pretrain in processes"]
EVERY_DAY = {
    "plan": {"SIGKILL", "files end at 512 bytes", "no descriptors", "full"},
    "fit": {"SIGINT", "few descriptors", "full", "read-only"},
    "predict": {"SIGTERM", "no temporary folder", "full", "files end at 512 bytes"},
    "report": {"SIGKILL", "read-only"},
    "evaluate": {"SIGINT", "no descriptors", "full"},
    "bench": {"read-only"},
    "fetch": {"SIGTERM", "SIGKILL", "full", "files end at 512 bytes", "no temporary folder"},
    "pretrain": {"SIGKILL", "full"},
}
"""Of every command and every fault some, in a minute; the other pairs, and later moments, are for ``--hostile``."""


def pairs(*faults):
    """Commands with faults; those that are not for every day are marked."""
    return [
        pytest.param(name, fault, marks=[] if fault in EVERY_DAY.get(name, ()) else pytest.mark.hostile)
        for name in (NAMES if "SIGKILL" not in faults else NAMES + TWO_WORKERS)
        for fault in faults
    ]


@pytest.fixture(scope="module")
def works(tmp_path_factory, checkpoint_dir):
    """The commands by name, on files of their own."""
    folder = tmp_path_factory.mktemp("source")
    specs()  # found before one of ours is among them
    _SPECS[SPEC.name] = SPEC
    address, server = serve_index(tmp_path_factory.mktemp("index"))
    try:
        yield make_works(make_source(folder, checkpoint_dir / "v2.ckpt"), checkpoint_dir / "v2.ckpt", address)
    finally:
        server.kill()
        del _SPECS[SPEC.name]


def files(folder):
    """What lies below a folder; names that are drawn at random are alike."""
    return sorted(re.sub("[0-9a-f]{32}", "*", str(path.relative_to(folder))) for path in folder.rglob("*"))


@pytest.fixture(scope="module")
def undisturbed(works, tmp_path_factory):
    """What a command leaves where nothing disturbs it: names, the bytes of its file, and temporary files of others."""
    known = {}

    def find(name):
        if name not in known:
            folder, temporary = tmp_path_factory.mktemp("undisturbed"), tmp_path_factory.mktemp("temporary")
            works[name].before(folder)
            code, text = works[name].run(folder, temporary=temporary)
            assert code == 0, text
            output = folder / works[name].output
            assert {path.name for path in temporary.iterdir()} <= {f"torchinductor_{getpass.getuser()}"}  # torch's own
            known[name] = files(folder), output.read_bytes() if output.is_file() else b"", files(temporary)
        return known[name]

    return find


def complaint(text):
    """The one line of a command that says what is wrong."""
    (line,) = re.findall(r"scff: .*", text)  # a progress bar may stand before it
    return line


def check_whole(work, folder, expected):
    """Assert that the file of a command is as it was, or finished."""
    output = folder / work.output
    if output.is_file() and output.read_bytes() != OLD:
        assert work.is_whole(output, expected)
    for record in folder.glob("records/**/*.json"):
        assert b'"checksum"' in record.read_bytes()


def check_next(work, folder, expected, **faults):
    """Assert that the next run finishes and leaves what an undisturbed one leaves."""
    code, text = work.run(folder, **faults)
    assert code == 0, text
    check_whole(work, folder, expected[1])
    assert not (folder / work.output).is_file() or (folder / work.output).read_bytes() != OLD
    assert files(folder) == expected[0]


@pytest.mark.parametrize(("name", "kill"), pairs("SIGKILL", "SIGTERM", "SIGINT"))
def test_a_killed_command_damages_nothing_and_leaves_nothing(works, undisturbed, tmp_path, name, kill, whole, tally):
    work, expected, number = works[name], undisturbed(name), signal.Signals[kill]
    for delay in work.delays if whole else work.delays[-2:][:1]:
        folder, temporary = tmp_path / f"out-{delay}", tmp_path / f"tmp-{delay}"
        folder.mkdir()
        temporary.mkdir()
        work.before(folder)
        code, text = work.run(folder, temporary=temporary, stop=(number, delay))
        assert "Traceback" not in text, text
        assert code in (0, -number, 130, 143), (code, text)
        check_whole(work, folder, expected[1])
        check_next(work, folder, expected, temporary=temporary)
        assert files(temporary) == expected[2]
        tally("kills", "unharmed")


FAULTS = {
    "files end at 512 bytes": [(resource.RLIMIT_FSIZE, 512)],
    "no descriptors": [(resource.RLIMIT_NOFILE, 3)],
    "few descriptors": [(resource.RLIMIT_NOFILE, 6)],
}


@pytest.mark.parametrize(("name", "fault"), pairs(*FAULTS))
def test_a_command_without_room_or_descriptors_says_so(works, undisturbed, tmp_path, name, fault, tally):
    work, expected = works[name], undisturbed(name)
    work.before(tmp_path)
    code, text = work.run(tmp_path, limits=FAULTS[fault])
    assert "Traceback" not in text, text
    assert code in (0, 2), (code, text)
    check_whole(work, tmp_path, expected[1])
    if code == 2 and "files" not in fault:  # what it says would be cut off by the same limit
        sentence(complaint(text))
    check_next(work, tmp_path, expected)
    tally("faults", "unharmed")


@pytest.mark.parametrize(("name", "fault"), pairs("no temporary folder"))
def test_a_command_without_a_temporary_folder_needs_none_or_says_so(works, undisturbed, tmp_path, name, fault, tally):
    folder = tmp_path / "out"
    folder.mkdir()
    works[name].before(folder)
    code, text = works[name].run(folder, temporary=tmp_path / "nowhere")
    assert code in (0, 2), (code, text)
    assert "Traceback" not in text, text
    if code:
        sentence(complaint(text))
    check_next(works[name], folder, undisturbed(name))
    tally("faults", "unharmed")


@pytest.fixture(scope="module")
def small_disk(tmp_path_factory):
    """A file system of four megabytes."""
    folder = tmp_path_factory.mktemp("disk")
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", folder]
    if subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a small file system can be mounted by root only")
    yield folder
    subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(("name", "fault"), pairs("full"))
def test_a_full_disk_is_one_sentence_and_keeps_the_old_file(works, undisturbed, small_disk, name, fault, tally):
    work, folder = works[name], small_disk / name
    folder.mkdir()
    work.before(folder)
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    filler = small_disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        for _ in range(4096):
            file.write(b"x" * 1024)
    code, text = work.run(folder)
    assert code == 2, text
    assert "No space left" in text
    sentence(complaint(text))
    assert {path: path.read_bytes() for path in kept} == kept
    filler.unlink()
    check_next(work, folder, undisturbed(name))
    subprocess.run(["rm", "-r", folder], check=True)
    tally("faults", "unharmed")


@pytest.fixture
def read_only(tmp_path):
    """A folder, and a way to close and open it; even root may not write where a file system says so."""
    folder = tmp_path / "closed"
    folder.mkdir()
    is_root = os.geteuid() == 0
    if is_root:
        subprocess.run(["mount", "-t", "tmpfs", "-o", "size=8m", "tmpfs", folder], check=True)

    def close(closed):
        if is_root:
            subprocess.run(["mount", "-o", f"remount,{'ro' if closed else 'rw'}", folder], check=True)
        else:
            folder.chmod(0o500 if closed else 0o700)

    yield folder, close
    if is_root:
        subprocess.run(["umount", "-l", folder], check=True)


@pytest.mark.parametrize(("name", "fault"), pairs("read-only"))
def test_a_folder_that_may_only_be_read_is_one_sentence(works, undisturbed, read_only, name, fault, tally):
    folder, close = read_only
    works[name].before(folder)
    kept = {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}
    close(True)
    code, text = works[name].run(folder)
    assert code == 2, text
    assert "Read-only" in text or "Permission denied" in text
    sentence(complaint(text))
    assert {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()} == kept
    close(False)
    check_next(works[name], folder, undisturbed(name))
    tally("faults", "unharmed")
