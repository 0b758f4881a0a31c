"""Every number of the published studies once more, from the record files alone.

`Files` is the independent script: it reads JSON and does arithmetic, with nothing of the renderer in it.
"""

import json
from pathlib import Path

import numpy as np
import pytest

from scff.bench.rendering import study_tables
from scff.bench.results import Results
from scff.bench.studies import get_study
from test_bench_tables import LAPTOP, fill


class Files:
    def __init__(self, root):
        self.cells = {}
        for path in Path(root).rglob("*.json"):
            body = json.loads(path.read_text())
            if body["status"] == "ok":
                key = body["key"]
                self.cells[key["dataset"], key["fold"], key["variant"], key["arm"]] = body

    def pairs(self, a, b, folds=(0, 1, 2), variants=("plain",)):
        places = [(d, f, v) for d, f, v, arm in self.cells if arm == a and f in folds and v in variants]
        return {p: (self.cells[*p, a], self.cells[*p, b]) for p in places if (*p, b) in self.cells}

    @staticmethod
    def effects(pairs, metric, sign=(1, -1)):
        tables = sorted({place[0] for place in pairs})
        value = {p: sum(s * x["metrics"][metric] for s, x in zip(sign, two, strict=True)) for p, two in pairs.items()}
        return np.array([np.mean([v for p, v in value.items() if p[0] == d]) for d in tables])

    def interval(self, pairs, metric):
        e = self.effects(pairs, metric)
        draws = np.random.default_rng(20260920).integers(0, len(e), (100_000, len(e)))
        scale, digits = (100, 3) if metric == "accuracy" else (1, 5)
        shown = [f"{scale * v:+.{digits}f}" for v in (e.mean(), *np.percentile(e[draws].mean(1), [2.5, 97.5]))]
        return f"{shown[0]} [{shown[1]}, {shown[2]}]"

    def plain(self, pairs):
        return [f"{100 * self.effects(pairs, 'accuracy').mean():+.3f}", f"{self.effects(pairs, 'nll').mean():+.5f}"]

    @staticmethod
    def ratios(pairs, what=("memory", "added")):
        return [a[what[0]][what[1]] / b[what[0]][what[1]] for a, b in pairs.values()]


def tables_of(study, root):
    found = study_tables(get_study(study), [Results.load(root, LAPTOP, "nano")])
    return {t.title: [[c.text for c in row] for row in t.rows] for t in found}


@pytest.mark.parametrize("study", ["core-decomposition", "tail", "components"])
def test_intervals(study, tmp_path):
    declared = get_study(study)
    fill(tmp_path, declared.arms)
    files, shown = Files(tmp_path), tables_of(study, tmp_path)
    checked = 0
    for report in declared.reports:
        contrasts = report.get("contrasts", [])
        if report["kind"] == "intervals":
            folds = (0, 1, 2) if report["folds"] == "all" else (1, 2)
            for row, (a, b) in zip(shown[report["title"]], contrasts, strict=True):
                pairs = files.pairs(a, b, folds)
                assert row[1] == f"{a} − {b}"
                assert row[3:5] == [files.interval(pairs, m) for m in ("accuracy", "nll")]
                checked += 1
        elif report["kind"] == "maxima":
            pairs = files.pairs(*contrasts[0])
            top = max(a["memory"]["added"] for a, _ in pairs.values())
            most = top / max(b["memory"]["added"] for _, b in pairs.values())
            assert shown["Core memory"][0][2:4] == [f"{most:.2f}×", f"{np.median(files.ratios(pairs)):.2f}×"]
            checked += 1
        elif report["kind"] == "components":
            arms = [arm for arm in declared.arms if arm not in ("scff", "native")]
            for row, arm in zip(shown["Component controls"], arms, strict=True):
                pairs = files.pairs("scff", arm)
                assert row[3:5] == [files.interval(pairs, m) for m in ("accuracy", "nll")]
                checked += 1
        elif report["kind"] == "tail-selection":
            for row, (arm, name) in zip(shown["Choosing the Tail update"], report["variants"], strict=True):
                pairs = files.pairs(arm, "bounded-core", (0,))
                both = [files.effects(pairs, m).mean() for m in ("accuracy", "nll")]
                assert row == [name, f"{int(both[0] > 0 and both[1] < 0)}/1", *files.plain(pairs)]
                checked += 1
        elif report["kind"] == "gates":
            mine = [c for (*_, variant, arm), c in files.cells.items() if arm == "scff" and variant == "plain"]
            assert sum(int(row[2]) for row in shown["What the Tail gate decided"]) == len(
                [c for c in mine if c["gate"]]
            )
            checked += 1
        else:
            pytest.fail(f"nobody recomputes {report['kind']!r}")
    assert checked >= 3


def test_leaf_width(tmp_path):
    fill(tmp_path, get_study("leaf-width").arms)
    files, shown = Files(tmp_path), tables_of("leaf-width", tmp_path)["Leaf width"]
    for row, width in zip(shown, (32, 64, 128), strict=True):
        pairs = files.pairs(f"scff-leaf-{width}", "native")
        mine = [a for a, _ in pairs.values()]
        leaves = np.median([a["plan"]["core_leaves"] + a["plan"]["tail_leaves"] for a in mine])
        seconds = np.median([a["seconds"]["total"] for a in mine])
        peak = max(a["memory"]["added"] for a in mine) / 2**30
        assert row[1:7] == [str(width), f"{leaves:.1f}", *files.plain(pairs), f"{seconds:.3f}", f"{peak:.3f}"]


def test_nuisance(tmp_path):
    study = get_study("nuisance")
    names = sorted({variant.name for variant, _ in study.variants} | {"plain"})
    fill(tmp_path, study.arms, names)
    files, shown = Files(tmp_path), tables_of("nuisance", tmp_path)["Nuisance columns, nano"]
    assert [row[0] for row in shown] == ["0", "64", "128", "256", "512"]
    for row in shown:
        variants = ["plain"] if row[0] == "0" else [n for n in names if n.startswith(f"nuisance-{row[0]}-")]
        pairs = {p: v for p, v in files.pairs("scff", "native", (0,), variants).items() if p[0] != "e"}
        levels = [
            f"{scale * files.effects(pairs, m, side).mean():.{digits}f}"
            for m, scale, digits in (("accuracy", 100, 3), ("nll", 1, 5))
            for side in ((0, 1), (1, 0))
        ]
        memory = np.median([1 / r for r in files.ratios(pairs)])
        assert row[1:] == [*levels, *files.plain(pairs), f"{memory:.2f}×"]


def test_equal_memory(tmp_path):
    fill(tmp_path, ["bounded-core"], prefixes=(16, 64, 128))
    files, shown = Files(tmp_path), tables_of("equal-memory", tmp_path)
    chosen = {}
    for (d, f, _, arm), folded in files.cells.items():
        if arm == "bounded-core" and f in (1, 2):
            prefixes = [files.cells[d, f, "plain", f"prefix-{k}"] for k in (16, 64, 128)]
            within = [p for p in prefixes if p["memory"]["added"] <= folded["memory"]["added"]]
            if within:
                chosen[d, f] = (folded, within[-1])
    assert shown["Equal memory"][0][1] == "All tables"
    assert shown["Equal memory"][0][6:8] == [files.interval(chosen, m) for m in ("accuracy", "nll")]
    for row in shown["Equal memory per table, nano"]:
        mine = {p: v for p, v in chosen.items() if p[0] == row[0]}
        widths = [int(b["key"]["arm"].removeprefix("prefix-")) for _, b in mine.values()]
        core = np.median([a["plan"]["core"] for a, _ in mine.values()])
        assert row[1:] == [f"{core:.0f}", f"{np.median(widths):.0f}", *files.plain(mine)]
