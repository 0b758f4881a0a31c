"""What there is to know about the backbones, as data: for ``scff backbones`` and for the documentation."""

from __future__ import annotations

import re
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from scff.backbones.absent import ABSENT
from scff.backbones.registry import get_spec, specs
from scff.backbones.spec import BackboneSpec, package_of
from scff.backbones.weights import checkpoints
from scff.errors import CheckpointError, CheckpointMissing

__all__ = ["BackboneRow", "Verified", "docs_table", "fetch", "listing", "path", "update_docs", "verify"]

_BEGIN, _END = ".. backbones:begin", ".. backbones:end"


@dataclass(frozen=True)
class BackboneRow:
    """One backbone on this machine.

    Attributes
    ----------
    name, kind, task, summary : str
    aliases : tuple of str
        Other names it answers to.
    code_licence, weights_licence : str
    leaf_width, classes, rows : int or None
        What it can take, None where it has no limit of its own; ``rows`` is what it was made for.
    package : str
        The package it needs, empty where scff itself is enough.
    installed : bool
        Whether that package is there.
    where : {"embedded", "package", "local", "cached", "missing", "by path"}
        Where the weights are: in scff, in the upstream package, in ``SCFF_CHECKPOINT_DIR``, in scff's or the hub's
        cache.
    path : Path or None
    command : str
        The one command that gets what is missing, empty where nothing is.
    """

    name: str
    kind: str
    task: str
    summary: str
    code_licence: str
    weights_licence: str
    leaf_width: int | None
    classes: int | None
    rows: int | None
    package: str
    installed: bool
    where: str
    path: Path | None
    command: str
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True)
class Verified:
    """A file of weights compared with its pinned digest.

    Attributes
    ----------
    name : str
    path : Path
    sha256 : str
        What the file has.
    expected : str or None
        What it should begin with; None where nothing is pinned.
    ok : bool or None
        None where nothing is pinned.
    """

    name: str
    path: Path
    sha256: str
    expected: str | None
    ok: bool | None


def listing() -> list[BackboneRow]:
    """Every backbone, built-in ones first."""
    return [_row(spec) for spec in specs().values()]


def fetch(name: str, *, progress: bool = False) -> Path:
    """Get the weights of a backbone and check them; see `scff.backbones.weights.checkpoints.fetch`."""
    return checkpoints.fetch(get_spec(name), progress=progress)


def path(name: str) -> Path:
    """Where the weights of a backbone are on this machine; never the network.

    Raises
    ------
    CheckpointMissing
        If they are not there.
    """
    row = _row(get_spec(name))
    if row.path is None:
        raise CheckpointMissing(f"The weights of {name!r} are not on this machine; get them with: {row.command}")
    return row.path


def verify(name: str | None = None) -> list[Verified]:
    """Compare files of weights with their pinned digests.

    Parameters
    ----------
    name : str, optional
        One backbone; by default every one whose weights are on this machine.
    """
    if name is not None:
        return [_verify(get_spec(name), path(name))]
    return [_verify(get_spec(row.name), row.path) for row in listing() if row.path is not None]


def docs_table() -> str:
    """The backbones as a table in reStructuredText: only what is the same on every machine."""
    head = ["backbone", "for", "kind", "what it is", "package", "licence: code / weights", "leaf", "classes", "weights"]
    lines = [head]
    for spec in specs().values():
        lines.append(
            [
                f"``{spec.name}``",
                "classes" if spec.task == "classification" else "numbers",
                spec.kind,
                spec.summary,
                f"``{spec.requires}``" if spec.requires else "",
                f"{spec.code_licence} / {spec.weights_licence}",
                _limit(spec.limits.leaf_width),
                _limit(spec.limits.classes) if spec.task == "classification" else "",
                _source(spec),
            ]
        )
    lines += [[f"``{name}``", "", "", f"not here: {reason}", *[""] * 5] for name, reason in ABSENT.items()]
    rows = ["\n      - ".join(line).replace("- \n", "-\n").rstrip() for line in lines]
    return ".. list-table::\n    :header-rows: 1\n\n" + "\n".join(f"    * - {row}" for row in rows)


def update_docs(page: Path) -> bool:
    """Put the table between its two markers in a page; returns whether the file changed.

    Raises
    ------
    CheckpointError
        If the markers are not there.
    """
    text = page.read_text()
    pattern = re.compile(f"{re.escape(_BEGIN)}.*{re.escape(_END)}", re.DOTALL)
    if not pattern.search(text):
        raise CheckpointError(f"{page} lacks the markers {_BEGIN} and {_END}.")
    new = pattern.sub(lambda _: f"{_BEGIN}\n\n{docs_table()}\n\n{_END}", text)
    if new != text:
        page.write_text(new)
    return new != text


def _row(spec: BackboneSpec) -> BackboneRow:
    package = package_of(spec.requires)
    # "autogluon.tabular" and the like: the import name is the distribution's, with dots.
    installed = not package or _importable(package)
    found = checkpoints.find(spec.weights) if spec.weights is not None else None
    if spec.weights is None:
        where = "by path"
    elif found is None:
        where = "missing"
    else:
        where = {"fetched": "cached", "hub cache": "cached"}.get(found[1], found[1])
    if not installed:
        command = f"pip install '{spec.requires}'"
    elif where == "missing":
        command = f"scff backbones fetch {spec.name}"
    else:
        command = ""
    return BackboneRow(
        spec.name,
        spec.kind,
        spec.task,
        spec.summary,
        spec.code_licence,
        spec.weights_licence,
        spec.limits.leaf_width,
        spec.limits.classes,
        spec.limits.rows,
        spec.requires,
        installed,
        where,
        None if found is None else found[0],
        command,
        spec.aliases,
    )


def _importable(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except (ModuleNotFoundError, ValueError):
        return False


def _verify(spec: BackboneSpec, file: Path) -> Verified:
    digest = checkpoints.sha256(file)
    expected = spec.weights.sha256 if spec.weights is not None else None
    return Verified(spec.name, file, digest, expected, None if expected is None else digest.startswith(expected))


def _limit(number: int | None) -> str:
    return "any" if number is None else str(number)


def _source(spec: BackboneSpec) -> str:
    weights = spec.weights
    if weights is None:
        return "your file, by path"
    if weights.embedded:
        return "in this package"
    if weights.package is not None:
        return f"in ``{weights.package.partition('/')[0]}`` itself"
    if weights.fetch is not None:
        return f"PyPI ``{weights.fetch.removeprefix('pypi:').partition('/')[0]}``"
    return f"`{weights.repo} <https://huggingface.co/{weights.repo}>`__" if weights.repo else "your file, by path"
