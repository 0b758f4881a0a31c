"""Tables: every number follows from the records, and says from which."""

import json
import re
import statistics
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from bench_tools import record
from scff.bench.equal_memory import choose_prefix, matched_pairs
from scff.bench.figures import write_figures
from scff.bench.folds import get_protocol
from scff.bench.records import RecordStore
from scff.bench.rendering import failures, page_tables, study_tables, write_tables
from scff.bench.reports import make
from scff.bench.results import Results
from scff.bench.studies import get_study, studies
from scff.errors import DataError

LAPTOP = get_protocol("laptop")
TABLES = ("a", "b_b", "c", "d")


def fill(root, arms, variants=("plain",), folds=(0, 1, 2), prefixes=()):
    """Records with random numbers, some of them failed or excluded."""
    rng = np.random.default_rng(0)
    store = RecordStore(root)
    for dataset in TABLES:
        for variant in variants:
            for fold in folds:
                core = int(rng.integers(20, 600))
                for arm in [*arms, *(f"prefix-{k}" for k in prefixes)]:
                    numbers = {
                        "accuracy": rng.integers(40, 99) / 100,
                        "nll": float(rng.gamma(2.0)),
                        "peak": int(rng.integers(10, 900)),
                        "seconds": float(rng.uniform(0.1, 3)),
                    }
                    store.write(record(arm, dataset, fold, variant, core=core, **numbers))
    store.write(record("scff", "e", 1, status="failed", reason="out of memory"))
    store.write(record("native", "e", 1))
    return root


def recompute_main(root):
    """Twenty lines from files to numbers, with nothing of the package in them."""
    cells = {}
    for path in Path(root).rglob("*.json"):
        body = json.loads(path.read_text())
        key = body["key"]
        if body["status"] == "ok" and key["variant"] == "plain":
            cells[key["dataset"], key["fold"], key["arm"]] = body
    folds = sorted({(d, f) for d, f, arm in cells if (d, f, "scff") in cells and (d, f, "native") in cells})
    names = sorted({d for d, _ in folds})
    value = lambda d, f, arm, m: cells[d, f, arm]["metrics"][m]  # noqa: E731
    mean = lambda arm, m, d, use: np.mean([value(d, f, arm, m) for dd, f in folds if dd == d and f in use])  # noqa: E731
    every, locked = {f for _, f in folds}, {1, 2}
    diff = {(m, u): {d: mean("scff", m, d, s) - mean("native", m, d, s) for d in names}
            for m in ("accuracy", "nll") for u, s in (("all", every), ("locked", locked))}  # fmt: skip
    macro = {(arm, m): np.mean([mean(arm, m, d, every) for d in names]) for arm in ("scff", "native") for m in ("accuracy", "nll")}  # fmt: skip  # noqa: E501
    peak = {arm: [cells[d, f, arm]["memory"]["added"] for d, f in folds] for arm in ("scff", "native")}
    time = {arm: [cells[d, f, arm]["seconds"]["total"] for d, f in folds] for arm in ("scff", "native")}
    speed, memory = (sorted(np.divide(x["native"], x["scff"])) for x in (time, peak))
    draws = np.random.default_rng(20260920).integers(0, len(names), (100_000, len(names)))
    ends = {k: np.percentile(np.array(list(v.values()))[draws].mean(1), [2.5, 97.5]) for k, v in diff.items()}
    return folds, names, diff, macro, peak, speed, memory, ends


def test_every_number_of_the_main_tables_is_recomputed_from_the_files(tmp_path):
    fill(tmp_path, ["native", "scff"])
    folds, names, diff, macro, peak, speed, memory, ends = recompute_main(tmp_path)
    tables = {t.title: t for t in study_tables(get_study("main"), [Results.load(tmp_path, LAPTOP, "nano")])}
    assert set(tables) == {
        "Main results", "Locked-fold confirmation", "All folds", "Leave one table out", "Typical effects",
        "Effects per table, nano", "Paired resources",
    }  # fmt: skip
    text = {title: [[c.text for c in row] for row in t.rows] for title, t in tables.items()}
    error = 1 - (1 - macro["scff", "accuracy"]) / (1 - macro["native", "accuracy"])
    assert text["Main results"] == [
        [
            "nano",
            str(len(names)),
            str(len(folds)),
            f"{100 * np.mean(list(diff['accuracy', 'all'].values())):+.3f}",
            f"{100 * error:+.1f}%",
            f"{np.mean(list(diff['nll', 'all'].values())):+.5f}",
            f"{100 * (1 - macro['scff', 'nll'] / macro['native', 'nll']):+.1f}%",
            f"{statistics.median(speed):.2f}×",
            f"{statistics.median(memory):.2f}×",
            f"{max(peak['native']) / max(peak['scff']):.2f}×",
        ]
    ]
    for title, use in (("Locked-fold confirmation", "locked"), ("All folds", "all")):
        expected = ["nano", "scff − native", str(len(names))]
        for m, scale, digits in (("accuracy", 100, 3), ("nll", 1, 5)):
            numbers = [np.mean(list(diff[m, use].values())), *ends[m, use]]
            shown = [f"{scale * v:+.{digits}f}" for v in numbers]
            expected.append(f"{shown[0]} [{shown[1]}, {shown[2]}]")
        assert text[title] == [expected]
    accuracy, nll = diff["accuracy", "locked"], diff["nll", "locked"]
    without = lambda e, d: np.mean([v for k, v in e.items() if k != d])  # noqa: E731
    low = min(names, key=lambda d: without(accuracy, d))
    high = max(names, key=lambda d: without(nll, d))
    assert text["Leave one table out"][0][2] == f"{100 * without(accuracy, low):+.3f} ({low})"
    assert text["Leave one table out"][0][4] == f"{without(nll, high):+.5f} ({high})"
    wins = sum(v > 1e-6 for v in accuracy.values()), sum(v < -1e-6 for v in accuracy.values())
    assert text["Typical effects"][0][1] == f"{100 * statistics.median(accuracy.values()):+.3f}"
    assert text["Typical effects"][0][2] == f"{wins[0]}/{len(names) - sum(wins)}/{wins[1]}"
    assert text["Typical effects"][0][3] == f"{statistics.median(nll.values()):+.5f}"
    assert [row[0] for row in text["Effects per table, nano"]] == names
    for row in text["Effects per table, nano"]:
        assert row[4:6] == [f"{100 * accuracy[row[0]]:+.3f}", f"{nll[row[0]]:+.5f}"]
    p10, p90 = np.percentile(memory, [10, 90])
    assert text["Paired resources"][0][2] == f"{statistics.median(memory):.2f}× [{p10:.2f}, {p90:.2f}]"


def test_what_the_default_read_is_counted_over_folds(tmp_path):
    fill(tmp_path, ["native", "scff", "auto"])
    tables = {t.title: t for t in study_tables(get_study("main"), [Results.load(tmp_path, LAPTOP, "nano")])}
    text = [[c.text for c in row] for row in tables["What held-back rows let the default read"].rows]
    folds = str(len(TABLES) * 3)
    assert text == [
        ["nano", "core", folds, folds, "0.25"],
        ["nano", "linked", folds, "0", "–"],
        ["nano", "all30", folds, folds, "0.75"],
    ]
    contrasts = [row[1].text for row in tables["The library's default beside the paper's method"].rows]
    assert contrasts == ["auto − native", "auto − scff"]
    assert [row[1].text for row in tables["All folds"].rows] == ["scff − native"]  # the paper's tables stay the paper's


def test_a_cell_names_exactly_its_records(tmp_path):
    fill(tmp_path, ["native", "scff"])
    results = Results.load(tmp_path, LAPTOP, "nano")
    paths = write_tables(get_study("main"), [results], tmp_path / "tables")
    trace = json.loads(paths[-1].read_text())
    per_table = next(t for t in trace if t["title"].startswith("Effects per table"))
    row = next(row for row in per_table["rows"] if row[0]["text"] == "b_b")
    expected = {
        f"records/laptop/nano@{'c' * 12}/b_b/plain/f{fold}/{arm}.json" for fold in (1, 2) for arm in ("native", "scff")
    }
    assert set(row[4]["records"]) == expected
    for table in trace:
        for cell in (cell for row in table["rows"] for cell in row[1:]):
            assert all((tmp_path / name).is_file() for name in cell["records"])
    # The cell follows from the records it names.
    both = [json.loads((tmp_path / name).read_text()) for name in row[4]["records"]]
    sign = {"scff": 1, "native": -1}
    effect = sum(sign[b["key"]["arm"]] * b["metrics"]["accuracy"] for b in both) / 2
    assert row[4]["value"] == pytest.approx(100 * effect)


def test_incomplete_pairs_are_left_out_by_name(tmp_path):
    fill(tmp_path, ["native", "scff"])
    store = RecordStore(tmp_path)
    store.write(record("scff", "f", 1, query_hash="other rows"))
    store.write(record("native", "f", 1))
    store.write(record("scff", "g", 1, query_chunk=8))
    store.write(record("native", "g", 1))
    (table,) = make("main", [Results.load(tmp_path, LAPTOP, "nano")])
    assert table.rows[0][1].text == "4"
    notes = " ".join(table.notes)
    assert "Left out: e (scff: out of memory)." in notes
    assert "Left out: f (the two arms saw different rows)." in notes
    assert "Left out: g (the two arms used different query chunks)." in notes


def test_a_page_says_once_what_failed(tmp_path):
    fill(tmp_path, ["native", "scff", "auto"])
    results = Results.load(tmp_path, LAPTOP, "nano")
    whole, page = (make_tables(get_study("main"), [results]) for make_tables in (study_tables, page_tables))
    assert [table.rows for table in page] == [table.rows for table in whole]
    assert sum("Left out: e" in note for table in whole for note in table.notes) >= 3
    assert not any("Left out" in note for table in page for note in table.notes)
    assert page[0].notes == whole[0].notes[:1]
    assert failures(results) == ["Left out: e, all arms but native (out of memory)."]


@pytest.mark.parametrize("study", [s for s in studies() if s not in ("main", "equal-memory", "hdlss")])
def test_every_study_renders(study, tmp_path):
    declared = get_study(study)
    names = sorted({variant.name for variant, _ in declared.variants} | {"plain"})
    arms = sorted({arm for _, arms in declared.variants for arm in arms} | set(declared.arms))
    fill(tmp_path, arms, names)
    results = [Results.load(tmp_path, LAPTOP, "nano")]
    for path in write_tables(declared, results, tmp_path / "tables"):
        text = path.read_text()
        assert len(text) > 200
        assert "nan" not in re.findall(r"[\w.+-]+", text)
    assert len(write_figures(declared, results, tmp_path / "figures")) == len(declared.figures)


def test_formats_escape_what_they_must(tmp_path):
    fill(tmp_path, ["native", "scff"])
    write_tables(get_study("main"), [Results.load(tmp_path, LAPTOP, "nano")], tmp_path)
    tex = (tmp_path / "main.tex").read_text()
    assert "b\\_b" in tex
    assert not re.search(r"(?<!\\)[%_&](?![^\n]*\\\\)", tex.split("\\midrule")[1].split("\\bottomrule")[0])
    page = (tmp_path / "main.html").read_text()
    assert page.count("<table>") == page.count("</table>") == 7
    assert 'title="records/laptop/' in page


def test_the_papers_numbers_stand_beside_ours_for_the_same_backbone(tmp_path):
    fill(tmp_path, ["native", "scff", "raw-core", "bounded-core", "centred"])
    results = Results.load(tmp_path, LAPTOP, "nano")
    assert "Paper" not in make("main", [results])[0].columns
    results.backbone = "tabicl-v2"
    for name in ("main", "core-decomposition", "components"):  # a look at other rows is another question
        assert not any("Paper" in table.columns for table in study_tables(get_study(name), [results]))
    results.protocol = replace(LAPTOP, name="paper")
    table = make("main", [results])[0]
    assert table.columns[-1] == "Paper"
    assert table.rows[0][-1].text == "+1.564 pp, -0.03557"


def test_memory_alone_chooses_the_prefix(tmp_path):
    assert choose_prefix(100, {16: 10, 64: 99, 128: 101}, 300).width == 64
    assert choose_prefix(5, {16: 10, 64: 99}, 300) is None
    identity = choose_prefix(5, {14: 6}, 14)
    assert (identity.width, identity.strict) == (14, False)
    fill(tmp_path, ["bounded-core"], prefixes=(16, 64, 128))
    results = Results.load(tmp_path, LAPTOP, "nano")
    pairs, _ = matched_pairs(results)
    chosen = {(p.dataset, p.fold): p.b.key.arm for p in pairs.complete}
    assert chosen
    for path in tmp_path.rglob("prefix-*.json"):  # other quality, same memory: the same choice
        body = record(path.stem, path.parts[-4], int(path.parts[-2][1:]), accuracy=0.0, nll=9.0)
        kept = json.loads(path.read_text())["memory"]
        RecordStore(tmp_path).write(type(body)(**{**body.__dict__, "memory": kept}))
    again, _ = matched_pairs(Results.load(tmp_path, LAPTOP, "nano"))
    assert {(p.dataset, p.fold): p.b.key.arm for p in again.complete} == chosen
    for p in again.complete:
        assert p.b.memory["added"] <= p.a.memory["added"] or p.a.plan["core"] <= 128
    tables = study_tables(get_study("equal-memory"), [results])
    assert [t.title for t in tables] == ["Equal memory", "Equal memory per table, nano"]
    assert write_figures(get_study("equal-memory"), [results], tmp_path / "f")


def test_the_newest_checkpoint_is_shown_and_never_mixed(tmp_path):
    fill(tmp_path, ["native", "scff"])
    newer = record("scff", "a", 1)
    key = type(newer.key)(**{**newer.key.__dict__, "checkpoint": "d" * 12})
    RecordStore(tmp_path).write(type(newer)(**{**newer.__dict__, "key": key}))
    assert Results.load(tmp_path, LAPTOP, "nano").checkpoint == "d" * 12
    assert len(Results.load(tmp_path, LAPTOP, "nano").records) == 1
    assert Results.load(tmp_path, LAPTOP, "nano", "c" * 12).checkpoint == "c" * 12
    with pytest.raises(DataError, match="no records of 'tabicl-v2'"):
        Results.load(tmp_path, LAPTOP, "tabicl-v2")
