"""Every number of the published studies once more, from the record files alone.

`Files` is the independent script: it reads JSON and does arithmetic, with nothing of the renderer in it.
"""

import json
from dataclasses import replace
from functools import cache
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from bench_tools import record
from scff import bench
from scff.bench.equal_memory import Match, choose_prefix
from scff.bench.folds import get_protocol
from scff.bench.records import RecordStore
from scff.bench.rendering import study_tables
from scff.bench.results import Results
from scff.bench.studies import get_study, studies
from test_bench_tables import LAPTOP, TABLES, fill

FOLDS = {"all": (0, 1, 2), "locked": (1, 2), "development": (0,)}


@cache
def draws(n):
    return np.random.default_rng(20260920).integers(0, n, (100_000, n))


class Files:
    def __init__(self, root):
        self.add(json.loads(path.read_text()) for path in Path(root).rglob("*.json"))

    def add(self, bodies):
        keys = ("dataset", "fold", "variant", "arm")
        self.cells = {tuple(b["key"][k] for k in keys): b for b in bodies if b["status"] == "ok"}

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
        scale, digits = (100, 3) if metric == "accuracy" else (1, 5)
        if len(e) < 3:
            tables = "one table" if len(e) == 1 else f"{len(e)} tables"
            return f"{scale * e.mean():+.{digits}f} (no interval from {tables})"
        means = e[draws(len(e))].mean(1)
        shown = [f"{scale * v:+.{digits}f}" for v in (e.mean(), *np.percentile(means, [2.5, 97.5]))]
        return f"{shown[0]} [{shown[1]}, {shown[2]}]"

    def intervals(self, pairs):
        return [self.interval(pairs, metric) for metric in ("accuracy", "nll")]

    def agreement(self, pairs):
        """Median, wins, ties and losses of tables, and the least favourable mean without one of them."""
        names, cells = sorted({place[0] for place in pairs}), []
        for metric, scale, digits, sign in (("accuracy", 100, 3, 1), ("nll", 1, 5, -1)):
            e = self.effects(pairs, metric)
            wins, losses = int((sign * e > 1e-6).sum()), int((sign * e < -1e-6).sum())
            without = [np.delete(e, i).mean() for i in range(len(e))]
            worst = int(np.argmin(sign * np.array(without)))
            cells.append(f"{scale * np.median(e):+.{digits}f}")
            cells.append(f"{wins}/{len(e) - wins - losses}/{losses}")
            cells.append(f"{scale * without[worst]:+.{digits}f} ({names[worst]})")
        return cells

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
            folds = FOLDS[report["folds"]]
            for row, (a, b) in zip(shown[report["title"]], contrasts, strict=True):
                pairs = files.pairs(a, b, folds)
                assert row[1] == f"{a} − {b}"
                assert row[3:5] == [files.interval(pairs, m) for m in ("accuracy", "nll")]
                checked += 1
        elif report["kind"] == "agreement":
            for row, (a, b) in zip(shown[report["title"]], contrasts, strict=True):
                assert row[1] == f"{a} − {b}"
                assert row[3:] == files.agreement(files.pairs(a, b, FOLDS[report["folds"]]))
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
    files, titles = Files(tmp_path), tables_of("leaf-width", tmp_path)
    agreed, shown = titles["Leaf width, table by table"], titles["Leaf width"]
    wanted = [files.agreement(files.pairs(f"scff-leaf-{width}", "native")) for width in (32, 64, 128)]
    assert [row[3:] for row in agreed] == wanted
    for row, width in zip(shown, (32, 64, 128), strict=True):
        pairs = files.pairs(f"scff-leaf-{width}", "native")
        mine = [a for a, _ in pairs.values()]
        leaves = np.median([a["plan"]["core_leaves"] + a["plan"]["tail_leaves"] for a in mine])
        seconds = np.median([a["seconds"]["total"] for a in mine])
        peak = max(a["memory"]["added"] for a in mine) / 2**30
        assert row[1:] == [str(width), f"{leaves:.1f}", *files.intervals(pairs), f"{seconds:.3f}", f"{peak:.3f}"]


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
        assert row[1:] == [*levels, *files.intervals(pairs), f"{memory:.2f}×"]


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


def test_core_width(tmp_path):
    fill(tmp_path, ["raw-core", "bounded-core"])
    files, shown = Files(tmp_path), tables_of("core-width", tmp_path)["Same Core by selected width"]
    every = files.pairs("bounded-core", "raw-core")
    rows = []
    for name, low, high in (("K ≤ 128", 0, 128), ("129–256", 129, 256), ("K > 256", 257, 10**9)):
        inside = {p: two for p, two in every.items() if low <= two[0]["plan"]["core"] <= high}
        memory = np.median([1 / r for r in files.ratios(inside)])
        tables = str(len({p[0] for p in inside}))
        rows.append(["nano", name, tables, str(len(inside)), *files.intervals(inside), f"{memory:.2f}×"])
    assert shown == rows


def test_context_width(tmp_path):
    fill(tmp_path, ["native", "scff"], ["context-128", "context-512", "context-2048"], folds=(0, 1))
    files, shown = Files(tmp_path), tables_of("context-width", tmp_path)["Context and width"]
    rows = []
    for context in (128, 512, 2048):
        for (d, f, v), (a, b) in files.pairs("scff", "native", (0,), (f"context-{context}",)).items():
            peak, time = (a[x][y] / b[x][y] for x, y in (("memory", "added"), ("seconds", "total")))
            head = ["nano", d, str(a["n_columns"]), str(a["n_support"])]
            rows.append([*head, *files.plain({(d, f, v): (a, b)}), f"{peak:.2f}×", f"{time:.2f}×"])
    assert sorted(row for row in shown if row[1] != "all 4") == sorted(rows)
    assert len(rows) == 12
    for row, context in zip([row for row in shown if row[1] == "all 4"], (128, 512, 2048), strict=True):
        assert row[4:6] == files.intervals(files.pairs("scff", "native", (0,), (f"context-{context}",)))


def test_same_k(tmp_path):
    fill(tmp_path, ["raw-core", "bounded-core-leaf-64"])
    files = Files(tmp_path)
    shown = tables_of("same-k", tmp_path)["The same columns, one leaf or many"]
    pairs = files.pairs("bounded-core-leaf-64", "raw-core", (1, 2))
    assert shown[-1][1] == "All units"
    for row in shown:
        mine = {p: two for p, two in pairs.items() if row[1] in (p[0], "All units")}
        widths = [a["plan"]["core"] for a, _ in mine.values()]
        speed = np.median([b["seconds"]["predict"] / a["seconds"]["predict"] for a, b in mine.values()])
        memory = f"{np.median(files.ratios(mine)):.2f}×"
        cells = [str(len(mine)), f"{min(widths)}–{max(widths)}", f"{speed:.2f}×", memory]
        assert row[2:] == [*cells, *(files.plain(mine) if row[1] in TABLES else files.intervals(mine))]


@pytest.mark.parametrize(
    ("study", "sizes"),
    [("context-reinvestment", (2048, 3840, 7680, 15360)), ("context-reinvestment-small", (128, 256, 512, 1024, 2048))],
)
def test_context_reinvestment(study, sizes, tmp_path):
    contexts = [f"context-{n}" for n in sizes]
    fill(tmp_path, ["native", "mass-huber"], contexts, folds=(0,))
    files, shown = Files(tmp_path), tables_of(study, tmp_path)
    expected, fitting = {}, {}
    for (d, _, v, arm), native in files.cells.items():
        if (arm, v) == ("native", contexts[0]):
            there = [files.cells[d, 0, c, "mass-huber"] for c in contexts]
            shares = [x["memory"]["added"] / native["memory"]["added"] for x in there]
            fits = [(x, share) for x, share in zip(there, shares, strict=True) if share <= 1.02]
            if fits:  # the records here all say 64 support rows, so the first of them
                pair = fitting[d, 0, v] = (fits[0][0], native)
                cells = ["64 / 64", f"{fits[0][1]:.2f}×", *files.plain({(d, 0, v): pair})]
            else:
                cells = ["64 / none fits", f"{min(shares):.2f}×", "–", "–"]
            expected[d] = ["nano", d, "300", *cells]
    if len(fitting) > 1:
        name, share = f"all {len(fitting)}", np.median(files.ratios(fitting))
        expected[name] = ["nano", name, "", "", f"{share:.2f}×", *files.intervals(fitting)]
    assert fitting
    assert {row[1]: row for row in shown["Context bought with memory"]} == expected
    if study.endswith("small"):
        rows = shown["Every context, within the budget or not"]
        assert len(rows) == len(TABLES) * len(sizes)
        assert {tuple(row[5:]) for row in rows} >= {tuple(files.plain({p: two})) for p, two in fitting.items()}


def test_a_leaf_is_as_wide_as_the_backbones(tmp_path):
    # Widths, bins and names are those of tabpfn-v1, which takes at most 100 columns a leaf.
    fill(tmp_path, ["native", "raw-core", "bounded-core", "scff-leaf-32", "scff-leaf-64", "scff-leaf-128"])
    narrow = Results.load(tmp_path, LAPTOP, "nano")
    assert narrow.leaf_width == 128
    narrow.backbone = "tabpfn-v1"
    assert narrow.leaf_width == 100
    (bins,) = study_tables(get_study("core-width"), [narrow])
    assert [row[1].text for row in bins.rows] == ["K ≤ 100", "101–200", "K > 200"]
    leaves, _ = study_tables(get_study("leaf-width"), [narrow])
    assert [row[1].text for row in leaves.rows] == ["32", "64", "100"]
    assert leaves.notes[-1] == "tabpfn-v1 takes at most 100 columns a leaf: its 128 are these."
    assert choose_prefix(5, {120: 6}, 120, 128) == Match(120, strict=False)
    assert choose_prefix(5, {120: 6}, 120, 100) is None


def test_generated_features(tmp_path):
    fill(tmp_path, ["native", "scff"], ["plain", "generated"], folds=(0,))
    files, titles = Files(tmp_path), tables_of("generated-features", tmp_path)
    shown, agreed = titles["Generated features"], titles["Generated features, table by table"]
    names = sorted({d for d, _, v, arm in files.cells if v == "generated"})
    sides = (
        (("generated", "native"), ("plain", "native")),
        (("generated", "scff"), ("plain", "native")),
        (("generated", "scff"), ("generated", "native")),
    )
    for row, other, two in zip(shown, agreed, sides, strict=True):
        pairs = {(d,): tuple(files.cells[d, 0, v, arm] for v, arm in two) for d in names}
        counts = []
        for metric, sign in (("accuracy", 1), ("nll", -1)):
            e = sign * files.effects(pairs, metric)
            wins, losses = (e > 1e-6).sum(), (e < -1e-6).sum()
            counts.append(f"{wins}/{len(e) - wins - losses}/{losses}")
        assert row[2:] == [*files.intervals(pairs), f"{files.effects(pairs, 'auc').mean():+.5f}", *counts]
        assert other[3:] == files.agreement(pairs)


def test_auto_beside_the_papers_method(tmp_path):
    fill(tmp_path, ["native", "scff", "auto"])
    files, shown = Files(tmp_path), tables_of("main", tmp_path)
    for row, b in zip(shown["The library's default beside the paper's method"], ("native", "scff"), strict=True):
        assert row[1:] == [f"auto − {b}", "4", *files.intervals(files.pairs("auto", b))]
    for row, b in zip(shown["The library's default, table by table"], ("native", "scff"), strict=True):
        assert row[1:] == [f"auto − {b}", "4", *files.agreement(files.pairs("auto", b, (1, 2)))]


def test_published_folds_fold_by_fold(tmp_path):
    # Real published figures, made-up records on three of their folds.
    rng, store = np.random.default_rng(1), RecordStore(tmp_path)
    for fold in range(3):
        for arm in ("auto", "logistic"):
            right = 18 / 21 if fold == 1 else rng.integers(10, 21) / 21  # published as .85714, and that is a tie
            one = record(arm, "colon", fold, accuracy=right, nll=float(rng.gamma(1.0)))
            metrics = {**one.metrics, "auc": float(rng.uniform(0.5, 1))}
            store.write(replace(one, metrics=metrics, key=replace(one.key, protocol="tabpfn-wide")))
    table = study_tables(get_study("hdlss"), [Results.load(tmp_path, get_protocol("tabpfn-wide"), "nano")])
    shown = {row[0].text: [cell.text for cell in row[1:]] for row in table[0].rows}
    text = Path(bench.__file__).parent / "published" / "tabpfn-wide.csv"
    lines = [line.split(",") for line in text.read_text().splitlines() if line.startswith("colon,")]
    wide = {int(f): np.array([float(a), float(u)]) for _, f, m, a, u, _ in lines if m == "wide-v2-5k"}
    files = Files(tmp_path)
    for arm in ("auto", "logistic"):
        mine = {f: files.cells["colon", f, "plain", arm]["metrics"] for f in range(3)}
        ours = np.array([[mine[f]["accuracy"], mine[f]["auc"]] for f in range(3)])
        d = ours - np.array([wide[f] for f in range(3)])
        mean, error = d.mean(0), d.std(0, ddof=1) / np.sqrt(3)
        won = f"{(d[:, 0] > 1e-5).sum()}/{(abs(d[:, 0]) <= 1e-5).sum()}/{(d[:, 0] < -1e-5).sum()}"
        assert 0 < abs(d[1, 0]) < 1e-5
        nll = np.mean([mine[f]["nll"] for f in range(3)])
        means = [f"{100 * ours[:, 0].mean():.2f}", f"{ours[:, 1].mean():.3f}", f"{nll:.3f}"]
        pairs = [f"{100 * mean[0]:+.2f} ± {100 * error[0]:.2f}", won, f"{mean[1]:+.3f} ± {error[1]:.3f}"]
        assert shown[arm] == means + pairs
    assert len(shown) == 2 + len({line[2] for line in lines})


def test_published_folds_over_tables(tmp_path):
    # One fold of one table is missing for one arm, so no arm counts it there.
    rng, store, wanted = np.random.default_rng(2), RecordStore(tmp_path), {}
    folds = {"colon": [0, 1, 2], "leukemia": [0, 2]}
    for dataset, arm, fold in product(folds, ("auto", "scff"), range(3)):
        if (dataset, arm, fold) == ("leukemia", "scff", 1):
            continue
        one = record(arm, dataset, fold, accuracy=float(rng.uniform(0.6, 1)), nll=float(rng.gamma(1.0)))
        metrics = {**one.metrics, "auc": float(rng.uniform(0.6, 1))}
        store.write(replace(one, metrics=metrics, key=replace(one.key, protocol="tabpfn-wide")))
        wanted.setdefault((arm, dataset), {})[fold] = [metrics[m] for m in ("accuracy", "auc", "nll")]
    text = (Path(bench.__file__).parent / "published" / "tabpfn-wide.csv").read_text()
    for table, fold, method, *scores in (line.split(",") for line in text.splitlines()[1:]):
        wanted.setdefault((f"published: {method}", table), {})[int(fold)] = [float(score) for score in scores]
    shown = study_tables(get_study("hdlss"), [Results.load(tmp_path, get_protocol("tabpfn-wide"), "nano")])[0]
    assert shown.title.startswith("Mean of 2 tables")
    rival = [np.mean([wanted["published: wide-v2-5k", d][f] for f in folds[d]], axis=0) for d in folds]
    for name, *cells in [[cell.text for cell in row] for row in shown.rows]:
        means = [np.mean([wanted[name, d][f] for f in folds[d]], axis=0) for d in folds]
        accuracy, auc, nll = np.mean(means, axis=0)
        assert cells[:3] == [f"{100 * accuracy:.2f}", f"{auc:.4f}", f"{nll:.3f}"]
        if not name.endswith(": wide-v2-5k"):
            d = np.array(means) - np.array(rival)
            wins, ties, losses = (d > 1e-5).sum(0), (abs(d) <= 1e-5).sum(0), (d < -1e-5).sum(0)
            assert cells[3:] == [f"{wins[i]}/{ties[i]}/{losses[i]}" for i in (0, 1)]
    assert len(shown.rows) == len({name for name, _ in wanted})


def test_every_study_is_recomputed_here():
    mine = Path(__file__).read_text() + Path(__file__).with_name("test_bench_tables.py").read_text()
    for name in set(studies()) - {"baselines"}:  # its intervals are recomputed for the other studies
        assert f'"{name}"' in mine, name
