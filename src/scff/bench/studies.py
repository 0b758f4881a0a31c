"""Studies: declared comparisons, one TOML file each."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from importlib.resources import files
from pathlib import Path
from typing import Any

from scff.bench.arms import get_arm
from scff.bench.folds import Protocol
from scff.bench.jobs import Job
from scff.bench.panels import Panel
from scff.bench.variants import Variant
from scff.errors import DataError

__all__ = ["Study", "get_study", "studies"]


@dataclass(frozen=True)
class Study:
    """A declared comparison.

    Attributes
    ----------
    name, title, question : str
    folds : {"all", "locked", "development"}
    arms : tuple of str
        Arms run on every fold.
    variants : tuple of (Variant, tuple of str)
        Variants of the table, each with its arms where they are not the study's.
    bands : tuple of (low, high)
        Take only the table with most rows of each band of raw width; empty takes the whole panel.
    min_features, min_rows : int
        Eligibility from metadata.
    prefix_grid : tuple of int
        Single-leaf widths to measure beside the arms.
    repeats : int
        Timed predictions per cell.
    costed : bool
        Whether its reports show time or memory.
    protocol : str
        The protocol it is about, where it is about one; empty takes any.
    reports, figures : tuple of dict
        Tables and figures made from its records; ``kind`` names the maker, the rest are its parameters.
    """

    name: str
    title: str
    question: str
    folds: str
    arms: tuple[str, ...]
    variants: tuple[tuple[Variant, tuple[str, ...]], ...] = ()
    bands: tuple[tuple[int, int], ...] = ()
    min_features: int = 0
    min_rows: int = 0
    prefix_grid: tuple[int, ...] = ()
    repeats: int = 1
    costed: bool = True
    protocol: str = ""
    reports: tuple[dict[str, Any], ...] = field(default_factory=tuple)
    figures: tuple[dict[str, Any], ...] = field(default_factory=tuple)

    def panel(self, panel: Panel) -> Panel:
        """The tables of a panel that the study is about, by metadata alone."""
        eligible = tuple(
            d
            for d in panel.datasets
            if (d.features is None or d.features >= self.min_features) and (d.rows is None or d.rows >= self.min_rows)
        )
        chosen = Panel(panel.name, eligible)
        return chosen.widest_bands(self.bands) if self.bands else chosen

    def only(self, arms: Sequence[str]) -> Study:
        """The study with these of its arms alone."""
        known = dict.fromkeys(arm for _, some in self.variants for arm in some)
        if missing := [arm for arm in arms if arm not in known]:
            raise DataError(f"The study {self.name!r} has no arm {missing[0]!r}; its arms are {', '.join(known)}.")
        kept = ((variant, tuple(arm for arm in some if arm in arms)) for variant, some in self.variants)
        return replace(self, variants=tuple((variant, some) for variant, some in kept if some))

    def jobs(self, panel: Panel, protocol: Protocol) -> list[Job]:
        """Every job of the study."""
        return [
            Job(dataset, fold, variant, arms, self.prefix_grid, self.costed)
            for dataset in self.panel(panel).datasets
            for variant, arms in self.variants
            for fold in protocol.choose(self.folds, dataset.rows)
        ]


def studies() -> dict[str, Study]:
    """Every study of the package by name."""
    folder = files("scff.bench").joinpath("studies")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".toml"))
    found = [_parse(folder.joinpath(name).read_text(encoding="utf-8"), name) for name in names]
    return {study.name: study for study in found}


def get_study(name: str) -> Study:
    """A study by name, or from a TOML file of your own."""
    if name.endswith(".toml"):
        path = Path(name)
        if not path.is_file():
            raise DataError(f"There is no study file {name}.")
        return _parse(path.read_text(encoding="utf-8"), name)
    known = studies()
    if name not in known:
        raise DataError(f"There is no study {name!r}; known are {', '.join(known)}, or pass a .toml file.")
    return known[name]


def _parse(text: str, source: str) -> Study:
    try:
        data = tomllib.loads(text)
        data["bands"] = tuple((low, high) for low, high in data.get("bands", []))
        for key in ("arms", "prefix_grid"):
            data[key] = tuple(data.get(key, ()))
        data["variants"] = tuple(_variants(data.pop("variants", [{}]), data["arms"]))
        data["reports"] = tuple(data.pop("report", []))
        data["figures"] = tuple(data.pop("figure", []))
        study = Study(**data)
    except (tomllib.TOMLDecodeError, TypeError, ValueError) as error:
        raise DataError(f"{source} is not a study: {error}") from error
    for arm in study.arms:
        get_arm(arm)
    return study


def _variants(entries: list[dict[str, Any]], arms: tuple[str, ...]) -> list[tuple[Variant, tuple[str, ...]]]:
    """Variants, with lists of seeds, doses and contexts multiplied out; dose 0 has no seed."""
    out: dict[Variant, tuple[str, ...]] = {}
    for entry in entries:
        for context in _many(entry.get("context")):
            for dose in _many(entry.get("nuisance", 0)):
                for seed in _many(entry.get("seed", 0)) if dose else [0]:
                    variant = Variant(context, dose, seed, bool(entry.get("generated", False)))
                    out[variant] = tuple(entry.get("arms", arms))
    return list(out.items())


def _many(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
