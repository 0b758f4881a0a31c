"""Every figure of the tables on the results pages once more, from the lines of the record files alone.

`Files` of the other recomputation is the arithmetic; nothing of the package's statistics or reports comes in here, only
what the paper and TabPFN-Wide's authors print, from the package's data files, and the class limits of its backbones.
"""

import copy
import csv
import io
import json
import re
import tomllib
from collections import Counter
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scff import bench
from test_bench_recomputed import Files

ROOT = Path(__file__).resolve().parent.parent
RECORDS, RIVALS = (ROOT / "benchmarks" / "results" / name for name in ("studies.jsonl", "rivals.jsonl"))
DATA = Path(bench.__file__).parent
#: Page to protocol, backbone, columns of its widest leaf.
PAGES = {"results": ("paper", "tabpfn-v1", 100), "results_nano": ("rows-512", "nano", 128)}
ALL, LOCKED, FIRST = (0, 1, 2, 3, 4), (1, 2, 3, 4), (0,)
METRICS = (("accuracy", 100, 3), ("nll", 1, 5))
OURS = {"all": ALL, "locked": LOCKED, "development": FIRST}
CONTROLS = {
    "random-routing": "Random Core/Tail assignment",
    "centred": "Centred Tail (no Core projection)",
    "raw-residual": "Raw residual only",
    "fixed-prototype": "Fixed prototype update",
    "fisher": "Fisher-selected update",
    "no-single-leaf-fallback": "Validated update, no single-leaf fallback",
    "no-binary-restriction": "Validated update, no binary-task restriction",
}


def declared(study):
    return tomllib.loads((DATA / "studies" / f"{study}.toml").read_text())


@cache
def printed():
    return tomllib.loads((DATA / "paper.toml").read_text())


@cache
def bodies():
    return [json.loads(line) for line in RECORDS.read_text().splitlines()]


def of_protocol(protocol):
    files = Files.__new__(Files)
    files.add(one for one in bodies() if one["key"]["protocol"] == protocol)
    return files


def shown(page):
    """Block to title to rows of a page's list-tables, as a reader sees them."""
    text = (ROOT / "docs" / f"{page}.rst").read_text()
    found = {}
    for name, block in re.findall(r"\.\. results:(\S+):begin\n(.*?)\.\. results:\1:end", text, re.DOTALL):
        parts = re.split(r"^(.+)\n~+\n", block, flags=re.MULTILINE)[1:]
        found[name] = {title: rows(body) for title, body in zip(parts[::2], parts[1::2], strict=True)}
    return found


def rows(body):
    out = []
    for first, text in re.findall(r"^    (\* -|  -) ?(.*)$", body, re.MULTILINE):
        if first == "* -":
            out.append([])
        out[-1].append(re.sub(r"\\(.)", r"\1", text).replace("``", ""))
    return out[1:]


class Page:
    """The tables of one page from its records; a method is a study."""

    def __init__(self, page):
        self.protocol, self.backbone, self.leaf = PAGES[page]
        self.files = of_protocol(self.protocol)
        self.plain = [key for key in self.files.cells if key[2] == "plain"]

    def levels(self, pairs, metric, side):
        return self.files.effects(pairs, metric, (1, 0) if side == "a" else (0, 1))

    @staticmethod
    def peaks(pairs, side):
        return np.array([two["ab".index(side)]["memory"]["added"] for two in pairs.values()], dtype=float)

    @staticmethod
    def seconds(pairs, side, part="cpu"):
        return np.array([two["ab".index(side)]["seconds"][part] for two in pairs.values()])

    def across(self, a, b, folds):
        """Pairs of arms, each on the plain table or, as in ``scff on generated``, on a variant of it."""
        (arm, _, variant), (other, _, beside) = a.partition(" on "), b.partition(" on ")
        sides = (variant or "plain", arm), (beside or "plain", other)
        places = [(d, f) for d, f, *side in self.files.cells if tuple(side) == sides[0] and f in folds]
        both = {(*p, ""): tuple(self.files.cells.get((*p, *side)) for side in sides) for p in places}
        return {place: two for place, two in both.items() if all(two)}

    def contrasts(self, report, folds=None):
        out = []
        for a, b in report["contrasts"]:
            pairs = self.across(a, b, folds or OURS[report["folds"]])
            tables = str(len({place[0] for place in pairs}))
            kind = self.files.intervals if report["kind"] == "intervals" else self.files.agreement
            out.append([self.backbone, f"{a} − {b}", tables, *kind(pairs)])
            theirs = printed().get(report.get("paper", ""), {}).get(self.backbone)
            if theirs:
                out[-1].append(f"{theirs['accuracy']:+.3f} / {theirs['nll']:+.5f}")
        return out

    def declared(self, study):
        return {
            one["title"]: self.contrasts(one)
            for one in declared(study)["report"]
            if one["kind"] in ("intervals", "agreement")
        }

    def main(self):
        f, pairs, locked = (
            self.files,
            self.files.pairs("scff", "native", ALL),
            self.files.pairs("scff", "native", LOCKED),
        )
        names = sorted({place[0] for place in pairs})
        error = 1 - (1 - self.levels(pairs, "accuracy", "a")).mean() / (1 - self.levels(pairs, "accuracy", "b")).mean()
        loss = 1 - self.levels(pairs, "nll", "a").mean() / self.levels(pairs, "nll", "b").mean()
        speed = self.seconds(pairs, "b") / self.seconds(pairs, "a")
        memory = self.peaks(pairs, "b") / self.peaks(pairs, "a")
        accuracy, nll = f.plain(pairs)
        maxima = self.peaks(pairs, "b").max() / self.peaks(pairs, "a").max()
        head = [self.backbone, str(len(names)), str(len(pairs)), accuracy, f"{100 * error:+.1f}%", nll]
        ratios = [f"{np.median(speed):.2f}×", f"{np.median(memory):.2f}×", f"{maxima:.2f}×"]
        theirs = printed()["main"].get(self.backbone)
        last = [f"{theirs['accuracy']:+.3f} pp, {theirs['nll']:+.5f}"] if theirs else []
        out = {"Main results": [[*head, f"{100 * loss:+.1f}%", *ratios, *last]], **self.declared("main")}
        agreed = f.agreement(locked)
        mean = f.plain(locked)
        out["Leave one table out"] = [[self.backbone, mean[0], agreed[2], mean[1], agreed[5]]]
        out["Typical effects"] = [[self.backbone, *agreed[:2], *agreed[3:5]]]
        effects = out[f"Effects per table, {self.backbone}"] = []
        registry = out["Tables of the paper's registry"] = []
        for d in names:
            mine = {place: two for place, two in locked.items() if place[0] == d}
            columns = f"{next(iter(mine.values()))[0]['n_columns']:,}"
            levels = [f"{100 * self.levels(mine, 'accuracy', side)[0]:.2f}" for side in "ba"]
            ratio = f"{np.median(self.peaks(mine, 'b') / self.peaks(mine, 'a')):.2f}×"
            effects.append([d, columns, *levels, *f.plain(mine), ratio])
            theirs = [printed()["effects"][b] for b in ("tabpfn-v3", "tabicl-v1", "tabicl-v2", "refineicl-24l")]
            if d in theirs[0]["accuracy"]:
                two = [(100 * f.effects(mine, "accuracy")[0], f.effects(mine, "nll")[0])]
                two += [(one["accuracy"][d], one["nll"][d]) for one in theirs]
                registry.append([d, self.backbone, *(f"{a:+.2f} / {b:+.4f}" for a, b in two)])
        spread = [[np.median(x), *np.percentile(x, [10, 90])] for x in (memory, speed)]
        shown = [f"{m:.2f}× [{low:.2f}, {high:.2f}]" for m, low, high in spread]
        meters = ", ".join(sorted({two[0]["memory"]["meter"] for two in pairs.values()}))
        out["Paired resources"] = [[self.backbone, str(len(pairs)), *shown, meters]]
        theirs = printed()["resources"].get(self.backbone)
        if theirs:
            out["Paired resources"][0].append(f"{theirs['memory'][0]:.2f}× / {theirs['speed'][0]:.2f}×")
        verdicts = [f.cells[key]["verdict"] for key in self.plain if key[3] == "auto"]
        tried, read, weight = Counter(), Counter(), Counter()
        for verdict in verdicts:
            tried.update({one["name"] for one in verdict["tried"] + verdict["read"]})
            for one in verdict["read"]:
                read[one["name"]] += 1
                weight[one["name"]] += one["weight"]
        out["What held-back rows let the default read"] = {
            (self.backbone, name, str(n), str(read[name]), f"{weight[name] / read[name]:.2f}" if read[name] else "–")
            for name, n in tried.items()
        }
        return out

    def core_decomposition(self):
        pairs = self.files.pairs("raw-core", "bounded-core", ALL)
        ratio = self.peaks(pairs, "a").max() / self.peaks(pairs, "b").max()
        cells = [f"{ratio:.2f}×", f"{np.median(self.files.ratios(pairs)):.2f}×"]
        memory = {"Core memory": [[self.backbone, "raw-core / bounded-core", *cells]]}
        return {**self.declared("core-decomposition"), **memory}

    def tail(self):
        out = self.declared("tail")
        (selection,) = (one for one in declared("tail")["report"] if one["kind"] == "tail-selection")
        out["Choosing the Tail update"] = chosen = []
        for arm, name in selection["variants"]:
            pairs = self.files.pairs(arm, "bounded-core", FIRST)
            better = self.files.effects(pairs, "accuracy").mean() > 0 > self.files.effects(pairs, "nll").mean()
            chosen.append([name, f"{int(better)}/1", *self.files.plain(pairs)])
        decided = [self.files.cells[key]["gate"] for key in self.plain if key[3] == "scff"]
        gates = Counter(gate["reason"] for gate in decided if gate)
        out["What the Tail gate decided"] = {(self.backbone, reason, str(n)) for reason, n in gates.items()}
        return out

    def components(self):
        out = []
        for arm, name in CONTROLS.items():
            pairs = self.files.pairs("scff", arm, ALL)
            out.append([self.backbone, name, str(len({p[0] for p in pairs})), *self.files.intervals(pairs)])
        return {"Component controls": out, **self.declared("components")}

    def core_width(self):
        out, leaf = [], self.leaf
        every = self.files.pairs("bounded-core", "raw-core", ALL)
        bins = (
            (f"K ≤ {leaf}", 0, leaf),
            (f"{leaf + 1}–{2 * leaf}", leaf + 1, 2 * leaf),
            (f"K > {2 * leaf}", 2 * leaf + 1, 1e9),
        )
        for name, low, high in bins:
            inside = {p: two for p, two in every.items() if low <= two[0]["plan"]["core"] <= high}
            ratio = f"{np.median(1 / np.array(self.files.ratios(inside))):.2f}×"
            counts = [str(len({p[0] for p in inside})), str(len(inside))]
            out.append([self.backbone, name, *counts, *self.files.intervals(inside), ratio])
        return {"Same Core by selected width": out}

    def leaf_width(self):
        out = []
        for width in (32, 64, 128):
            pairs = self.files.pairs(f"scff-leaf-{width}", "native", ALL)
            mine = [a for a, _ in pairs.values()]
            leaves = np.median([a["plan"]["core_leaves"] + a["plan"]["tail_leaves"] for a in mine])
            seconds, peak = np.median(self.seconds(pairs, "a")), self.peaks(pairs, "a").max() / 2**30
            cells = [*self.files.intervals(pairs), f"{seconds:.3f}", f"{peak:.3f}"]
            out.append([self.backbone, str(min(width, self.leaf)), f"{leaves:.1f}", *cells])
        return {"Leaf width": out, **self.declared("leaf-width")}

    def nuisance(self):
        out, names = [], {d for d, _, v, _ in self.files.cells if v.startswith("nuisance-")}
        for dose in (0, 64, 128, 256, 512):
            variants = [f"nuisance-{dose}-s{seed}" for seed in (0, 1, 2)] if dose else ["plain"]
            pairs = {p: two for p, two in self.files.pairs("scff", "native", FIRST, variants).items() if p[0] in names}
            levels = [
                f"{scale * self.levels(pairs, metric, side).mean():.{digits}f}"
                for metric, scale, digits in METRICS
                for side in "ba"
            ]
            ratio = f"{np.median(1 / np.array(self.files.ratios(pairs))):.2f}×"
            out.append([str(dose), *levels, *self.files.intervals(pairs), ratio])
        return {f"Nuisance columns, {self.backbone}": out}

    def context_width(self):
        out = []
        for context in (128, 512, 2048):
            pairs = self.files.pairs("scff", "native", FIRST, [f"context-{context}"])
            groups = [(d, {p: two for p, two in pairs.items() if p[0] == d}) for d in sorted({p[0] for p in pairs})]
            for name, some in [*groups, (f"all {len(groups)}", pairs)]:
                ends = [[two[0][key] for two in some.values()] for key in ("n_columns", "n_support")]
                spans = [f"{min(e):,}–{max(e):,}" if min(e) < max(e) else f"{e[0]:,}" for e in ends]
                ratios = [
                    np.median(self.peaks(some, "a") / self.peaks(some, "b")),
                    np.median(self.seconds(some, "a") / self.seconds(some, "b")),
                ]
                effects = self.files.plain(some) if len(some) == 1 else self.files.intervals(some)
                out.append([self.backbone, name, *spans, *effects, *(f"{ratio:.2f}×" for ratio in ratios)])
        return {"Context and width": out}

    def generated_features(self):
        cells, out = self.files.cells, []
        names = sorted({d for d, _, v, arm in cells if v == "generated" and arm == "scff"})
        for name, a, b in (
            ("B − A: generated features", ("generated", "native"), ("plain", "native")),
            ("C − A: generated, folded", ("generated", "scff"), ("plain", "native")),
            ("C − B: folding the generated table", ("generated", "scff"), ("generated", "native")),
        ):
            pairs = {(d, 0, ""): (cells[d, 0, *a], cells[d, 0, *b]) for d in names}
            agreed = self.files.agreement(pairs)
            auc = f"{self.files.effects(pairs, 'auc').mean():+.5f}"
            out.append([self.backbone, name, *self.files.intervals(pairs), auc, agreed[1], agreed[4]])
        return {"Generated features": out, **self.declared("generated-features")}

    def context_reinvestment_small(self):
        cells, chosen, fitting, every = self.files.cells, [], {}, []
        for (d, _, v, arm), native in sorted(cells.items()):
            if (v, arm) != ("context-128", "native") or (d, 0, v, "mass-huber") not in cells:
                continue
            folded = [cells[d, 0, f"context-{n}", "mass-huber"] for n in (128, 256, 512, 1024, 2048)]
            head, fits = [self.backbone, d, f"{native['n_columns']:,}"], []
            for one in folded:
                share = one["memory"]["added"] / native["memory"]["added"]
                cells_of = [
                    f"128 / {one['n_support']:,}",
                    f"{share:.2f}×",
                    *self.files.plain({(d, 0, v): (one, native)}),
                ]
                every.append([*head, *cells_of])
                if share <= 1.02:
                    fits.append((one["n_support"], one, cells_of))
            if fits:
                _, one, cells_of = max(fits, key=lambda fit: fit[0])
                fitting[d, 0, v] = one, native
                chosen.append([*head, *cells_of])
            else:
                least = min(one["memory"]["added"] for one in folded) / native["memory"]["added"]
                chosen.append([*head, "128 / none fits", f"{least:.2f}×", "–", "–"])
        if len(fitting) > 1:
            share = f"{np.median(self.files.ratios(fitting)):.2f}×"
            chosen.append([self.backbone, f"all {len(fitting)}", "", "", share, *self.files.intervals(fitting)])
        return {"Context bought with memory": chosen, "Every context, within the budget or not": every}

    def equal_memory(self):
        f, matched, strict = self.files, {}, {}
        for d, fold in sorted({(d, fold) for d, fold, v, arm in f.cells if arm == "bounded-core" and fold in LOCKED}):
            folded = f.cells[d, fold, "plain", "bounded-core"]
            single = {
                int(arm.removeprefix("prefix-")): f.cells[d, fold, "plain", arm]
                for dd, ff, v, arm in f.cells
                if (dd, ff, v) == (d, fold, "plain") and arm.startswith("prefix-")
            }
            within = {k: one for k, one in single.items() if one["memory"]["added"] <= folded["memory"]["added"]}
            core = folded["plan"]["core"]
            if within or (core <= self.leaf and core in single):
                strict[d, fold] = bool(within)
                matched[d, fold, ""] = folded, (within[max(within)] if within else single[core])
        loose = {d for (d, _), one in strict.items() if not one}
        cores = {
            d: np.median([a["plan"]["core"] for (dd, *_), (a, _) in matched.items() if dd == d]) for d, *_ in matched
        }
        width = lambda two: int(two[1]["key"]["arm"].removeprefix("prefix-"))  # noqa: E731
        scopes, tables = [], []
        for name, keep in (
            ("All tables", set(cores)),
            ("Every fold within budget", set(cores) - loose),
            ("Core wider than a leaf", {d for d, core in cores.items() if core > self.leaf}),
        ):
            some = {p: two for p, two in matched.items() if p[0] in keep}
            medians = [
                np.median([a["plan"]["core"] for a, _ in some.values()]),
                np.median([*map(width, some.values())]),
            ]
            counts = [str(len({p[0] for p in some})), str(len(some)), *(f"{m:,.0f}" for m in medians)]
            scopes.append([self.backbone, name, *counts, *f.intervals(some)])
        for d, core in cores.items():
            mine = {p: two for p, two in matched.items() if p[0] == d}
            k = np.median([*map(width, mine.values())])
            tables.append([d, f"{core:,.0f}", f"{k:,.0f}", *f.plain(mine)])
        return {"Equal memory": scopes, f"Equal memory per table, {self.backbone}": tables}

    def same_k(self):
        pairs = self.files.pairs("bounded-core-leaf-64", "raw-core", LOCKED)
        pairs = {p: two for p, two in pairs.items() if two[0]["plan"]["core_leaves"] > 1}
        groups = [(d, {p: two for p, two in pairs.items() if p[0] == d}) for d in sorted({p[0] for p in pairs})]
        out = []
        for name, some in [*groups, ("All units", pairs)]:
            widths = [a["plan"]["core"] for a, _ in some.values()]
            span = f"{min(widths)}–{max(widths)}" if min(widths) < max(widths) else str(widths[0])
            speed = np.median(self.seconds(some, "b", "predict") / self.seconds(some, "a", "predict"))
            cells = [str(len(some)), span, f"{speed:.2f}×", f"{np.median(self.files.ratios(some)):.2f}×"]
            effects = self.files.intervals(some) if name == "All units" else self.files.plain(some)
            out.append([self.backbone, name, *cells, *effects])
        return {"The same columns, one leaf or many": out}

    def state(self):
        """How much of every study is there, and the cost."""
        mine = [one for one in bodies() if one["key"]["protocol"] == self.protocol]
        ok = [one for one in mine if one["status"] == "ok"]
        hours = [sum(one["seconds"][part] for one in ok) / 3600 for part in ("cpu", "load")]
        failed = f"{len(mine) - len(ok):,}"
        (weights,) = {one["key"]["checkpoint"] for one in mine}
        cost = [self.backbone, weights, self.protocol, f"{len(ok):,}", failed, *(f"{h:.2f}" for h in hours)]
        return {"Cost": [cost], "What is run": {study: self.counts(study, mine) for study in shown_studies()}}

    @staticmethod
    def counts(study, mine):
        """Cells that a study declares on the tables with records: all, done, failed, not run; tables, whole tables."""
        said, status = declared(study), {}
        for one in mine:
            key = one["key"]
            status[key["dataset"], key["fold"], key["variant"], key["arm"]] = one["status"]
        asked = []
        for entry in said.get("variants", [{}]):
            sizes = [f"context-{n}" for n in listed(entry.get("context", []))]
            doses = [(n, seed) for n in listed(entry.get("nuisance", [])) for seed in listed(entry["seed"])]
            added = {f"nuisance-{n}-s{seed}" if n else "plain" for n, seed in doses}
            variants = [*sizes, *added] or ["generated" if entry.get("generated") else "plain"]
            asked += [(variant, arm) for variant in variants for arm in entry.get("arms", said["arms"])]
        tables = {d for d, *_ in status}
        if "bands" in said or "min_rows" in said:  # tables by their shape: here those with what only this study asks
            own = {one for one in asked if one[0] != "plain" or "variants" not in said}
            tables = {d for d, _, *one in status if tuple(one) in own and one[1] == said["arms"][-1]}
        cells = [(d, f, *one) for d in tables for f in OURS[said["folds"]] for one in asked]
        there = [status[cell] for cell in cells if cell in status]
        good = there.count("ok")
        whole = tables - {cell[0] for cell in cells if status.get(cell) != "ok"}
        numbers = (len(cells), good, len(there) - good, len(cells) - len(there), len(tables), len(whole))
        return [f"{n:,}" for n in numbers]


def listed(value):
    return value if isinstance(value, list) else [value]


def shown_studies():
    return [name for name in shown("results") if name not in ("state", "hdlss", "context-reinvestment")]


def recompute(page):
    mine = Page(page)
    return {name: getattr(mine, name.replace("-", "_"))() for name in (*shown_studies(), "state")}


def differences(page, recomputed):
    """Where the tables of a page and recomputed ones are not the same: block, title, rows."""
    there = shown(page)
    assert set(there) - {"hdlss", "context-reinvestment"} == set(recomputed)
    found = []
    for name, tables in recomputed.items():
        assert set(there[name]) == set(tables), name
        for title, wanted in tables.items():
            seen = there[name][title]
            if title == "What is run":
                seen = {row[0]: row[2:] for row in seen if row[0] in wanted}
            elif isinstance(wanted, set):
                seen = set(map(tuple, seen))
            if seen != wanted:
                found.append((name, title, seen, wanted))
    return found


@pytest.mark.parametrize("page", PAGES)
def test_the_tables_are_the_records(page):
    assert differences(page, recompute(page)) == []


def test_a_page_of_other_records_is_found_out(monkeypatch):
    # One fold of one arm a point better: every table with this arm on this table must differ.
    others = copy.deepcopy(bodies())
    place = {"protocol": "rows-512", "dataset": "musk", "variant": "plain", "fold": 1, "arm": "scff"}
    one = next(other for other in others if place.items() <= other["key"].items())
    one["metrics"]["accuracy"] += 0.01
    monkeypatch.setattr("test_pages_recomputed.bodies", lambda: others)
    titles = {title for _, title, *_ in differences("results_nano", recompute("results_nano"))}
    assert {"Main results", "All folds", "Effects per table, nano", "Component controls"} <= titles
    assert {"Tail on minus Tail off, table by table", "Component controls, table by table"} <= titles
    assert not titles & {"Core decomposition", "Leaf width", "Equal memory", "Generated features", "What is run"}


def test_a_page_with_other_counts_or_names_is_found_out(monkeypatch):
    others = copy.deepcopy(bodies())
    place = {"protocol": "rows-512", "variant": "generated", "arm": "scff", "dataset": "musk"}
    one = next(other for other in others if place.items() <= other["key"].items())
    one["status"] = "failed"
    monkeypatch.setattr("test_pages_recomputed.bodies", lambda: others)
    monkeypatch.setitem(CONTROLS, "fisher", "Another update")
    found = {title: (seen, wanted) for _, title, seen, wanted in differences("results_nano", recompute("results_nano"))}
    seen, wanted = found["What is run"]
    assert {study for study in seen if seen[study] != wanted[study]} == {"generated-features"}
    assert wanted["generated-features"] == ["60", "59", "1", "0", "20", "19"]
    assert "Component controls" in found


def test_the_published_folds_beside_ours():
    """The mean over the gene tables and every table's own, arm by arm and method by method."""
    scores, backbone = {}, "tabpfn-v1"
    for line in RIVALS.read_text().splitlines():
        one = json.loads(line)
        if one["rows"] == "published" and "error" not in one:
            found = scores.setdefault((one["table"], one["arm"].removesuffix(f"/{backbone}")), {})
            found[one["seed"]] = one["accuracy"], one["auc"], one["log_loss"]
    studied = {}
    for one in bodies():
        key = one["key"]
        if key["protocol"] == "tabpfn-wide" and one["status"] == "ok":
            arm = key["arm"] if key["backbone"] in (backbone, "baseline") else f"{key['arm']}/{key['backbone']}"
            metrics = one["metrics"]
            place = studied.setdefault((key["dataset"], arm), {})
            place[key["fold"]] = metrics["accuracy"], metrics["auc"], metrics["nll"]
    scores |= studied
    published = csv.DictReader(io.StringIO((DATA / "published" / "tabpfn-wide.csv").read_text()))
    folds = {}
    for row in published:
        for table in {row["table"], f"skf_{row['table']}"} & {table for table, _ in scores}:
            three = tuple(float(row[metric]) for metric in ("accuracy", "auc", "log_loss"))
            scores.setdefault((table, f"published: {row['method']}"), {})[int(row["fold"])] = three
            folds.setdefault(table, set()).add(int(row["fold"]))
    scores = {
        key: np.array([some[f] for f in sorted(some)]) for key, some in scores.items() if set(some) == folds[key[0]]
    }
    there = shown("results")["hdlss"]
    rival = "published: wide-v2-5k"
    assert len(there) == 1 + len(folds)
    for table in folds:
        wanted = {}
        for (other, name), own in scores.items():
            if other == table:
                d = own - scores[table, rival]
                error = d.std(0, ddof=1) / np.sqrt(len(d))
                won = f"{(d[:, 0] > 1e-5).sum()}/{(abs(d[:, 0]) <= 1e-5).sum()}/{(d[:, 0] < -1e-5).sum()}"
                pairs = [
                    f"{100 * d[:, 0].mean():+.2f} ± {100 * error[0]:.2f}",
                    won,
                    f"{d[:, 1].mean():+.3f} ± {error[1]:.3f}",
                ]
                mean = own.mean(0)
                levels = [f"{100 * mean[0]:.2f}", f"{mean[1]:.3f}", f"{mean[2]:.3f}"]
                wanted[name] = [*levels, *(["", "", ""] if name == rival else pairs)]
        assert {row[0]: row[1:] for row in there[f"{table}, {backbone}"]} == wanted
    genes = [table for table in folds if not table.startswith("skf_")]
    (title,) = (title for title in there if title.startswith("Mean of"))
    assert title == f"Mean of {len(genes)} tables, {backbone}"
    wanted = {}
    for name in {name for table, name in scores if table in genes}:
        if all((table, name) in scores for table in genes):
            means = np.array([scores[table, name].mean(0) for table in genes])
            d = means - np.array([scores[table, rival].mean(0) for table in genes])
            wins, ties, losses = (d > 1e-5).sum(0), (abs(d) <= 1e-5).sum(0), (d < -1e-5).sum(0)
            counts = ["", ""] if name == rival else [f"{wins[i]}/{ties[i]}/{losses[i]}" for i in (0, 1)]
            accuracy, auc, nll = means.mean(0)
            wanted[name] = [f"{100 * accuracy:.2f}", f"{auc:.4f}", f"{nll:.3f}", *counts]
    assert {row[0]: row[1:] for row in there[title]} == wanted
