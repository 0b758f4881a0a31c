"""Run the paper's studies and write their tables and figures into a page of the documentation.

    python benchmarks/evaluation.py --panel FOLDER --backbone tabpfn-v1 --protocol paper
    python benchmarks/evaluation.py --panel FOLDER --backbone nano --protocol rows-512 --page PAGE.rst    # with markers
    python benchmarks/evaluation.py --panel FOLDER --backbone tabpfn-v1 --protocol paper --render-only
    python benchmarks/evaluation.py --panel FOLDER --backbone tabpfn-v1 --protocol paper --again

Tables come one after the other, the shortest first, each with all its studies: a run that is cut off has whole tables,
and not those with the best outcome. What is in the results folder already is not run again, so the same command
resumes after an interruption and only renders when nothing is left. Text outside the markers of the page is kept; its
markers say which studies are run, where ``--only`` does not.
Records come from and go to ``benchmarks/results/studies.jsonl`` too, a line each: a run goes on on another machine.
So nothing that is recorded there runs, unless ``--again`` asks for what other code than the present recorded.
"""

from __future__ import annotations

import argparse
import json
import re
from dataclasses import replace
from pathlib import Path

from scff.bench.arms import ARMS, get_arm
from scff.bench.folds import Protocol, get_protocol
from scff.bench.jobs import Job, RunSettings, checkpoint_of
from scff.bench.layout import Cell, ReportTable, count, label, to_rst
from scff.bench.panels import Panel, load_panel
from scff.bench.records import CellKey, Record, RecordStore, Reuse
from scff.bench.rendering import failures, page_tables, study_tables
from scff.bench.reports_published import theirs_on
from scff.bench.results import Results
from scff.bench.runner import run_jobs
from scff.bench.studies import Study, get_study
from scff.errors import DataError

STUDIES = (
    "main", "core-decomposition", "tail", "components", "core-width", "leaf-width", "nuisance", "context-width",
    "generated-features", "context-reinvestment", "context-reinvestment-small", "equal-memory", "same-k",
)  # fmt: skip
DOCS = Path(__file__).resolve().parent.parent / "docs"
RIVALS = Path(__file__).resolve().parent / "results" / "rivals.jsonl"
RECORDS = RIVALS.with_name("studies.jsonl")


def run(panel: Panel, settings: RunSettings, args: argparse.Namespace) -> None:
    """Run every study on one table after the other, the shortest first."""
    jobs = merged([get_study(name) for name in args.only], panel, settings.protocol, set(args.without))
    chosen = panel.select(args.tables).datasets if args.tables else panel.datasets
    for table in (d.name for d in sorted(chosen, key=lambda d: d.rows or 0)):
        for repeats in sorted({repeats for _, repeats in jobs}, reverse=True):  # what is timed most serves all
            mine = [job for job, n in jobs if job.dataset.name == table and n == repeats]
            end = run_jobs(
                mine, replace(settings, repeats=repeats), workers=args.jobs, report=lambda p: print(p, flush=True)
            )
            print(f"{table}: {end.done} cells done, {end.failed} failed or excluded", flush=True)


def merged(studies: list[Study], panel: Panel, rules: Protocol, without: set[str]) -> list[tuple[Job, int]]:
    """The jobs of all studies with their repeats, those on one fold made one: more arms can share a process."""
    arms: dict[tuple[Job, int], dict[str, None]] = {}
    for study in studies:
        for job in study.jobs(panel, rules):
            own = dict.fromkeys(arm for arm in job.arms if arm not in without)
            arms.setdefault((replace(job, arms=()), study.repeats), {}).update(own)
    return [(replace(job, arms=tuple(names)), repeats) for (job, repeats), names in arms.items() if names]


def unpack(root: Path) -> set[str]:
    """Put the records of the repository into a results folder that does not have them; return their protocols."""
    store, protocols = RecordStore(root), set()
    for line in RECORDS.read_text(encoding="utf-8").splitlines() if RECORDS.exists() else ():
        record = Record.from_json(line)
        protocols.add(record.key.protocol)
        if store.read(record.key) is None:
            store.write(record)
    return protocols


def pack(root: Path, protocols: set[str]) -> None:
    """Keep the records of these protocols in the repository."""
    records = [record for name in sorted(protocols) for record in RecordStore(root).all(name)]
    lines = [json.dumps(json.loads(record.to_json()), separators=(",", ":")) + "\n" for record in records]
    RECORDS.write_text("".join(lines), encoding="utf-8")


def section(study: Study, results: list[Results], panel: Panel) -> str:
    """Tables and figures of one study."""
    if not study.panel(panel).datasets:
        return f"No table here has {study.min_features:,} columns and {study.min_rows:,} rows, as this study wants.\n"
    from scff.bench.figures import write_figures  # here: arms' processes import this file too

    with_records = []
    for r in results:
        try:
            study_tables(study, [r])
            with_records.append(r)
        except DataError:  # this backbone has not run the study
            continue
    if not with_records:
        return "Not run yet.\n"
    text = to_rst(page_tables(study, with_records))
    for path in write_figures(study, with_records, DOCS / "figures"):
        text += f"\n.. image:: {path.relative_to(DOCS)}\n    :alt: {study.title}, {path.stem}\n"
    return text


def published(root: Path, backbone: str) -> str:
    """Our arms on TabPFN-Wide's folds: of ``scff bench run hdlss``, and of ``rivals.py`` where it has them all.

    Arms with another backbone than the page's keep its name, as in ``auto/nano``.
    """
    study = get_study("hdlss")
    rules, (report, *_) = get_protocol(study.protocol), study.reports
    known: dict[tuple[str, str], dict[int, Record]] = {}  # of a fold that was run again the last line counts
    for line in RIVALS.read_text(encoding="utf-8").splitlines():
        one = json.loads(line)
        arm = one["arm"].removesuffix(f"/{backbone}")
        if one["rows"] == "published" and "error" not in one and arm.partition("/")[0] in ARMS:
            key = CellKey(rules.name, backbone, "", one["table"], "plain", one["seed"], arm)
            metrics = {"accuracy": one["accuracy"], "auc": one["auc"], "nll": one["log_loss"]}
            known.setdefault((one["table"], arm), {})[one["seed"]] = Record(key, "ok", metrics=metrics)
    run: dict[tuple[str, str], dict[int, Record]] = {}
    for record in RecordStore(root).all(rules.name):
        key = record.key
        arm = key.arm if key.backbone in (backbone, "baseline") else f"{key.arm}/{key.backbone}"
        if record.ok:
            run.setdefault((key.dataset, arm), {})[key.fold] = replace(record, key=replace(key, arm=arm))
    whole = {
        (table, arm): some
        for (table, arm), some in {**known, **run}.items()
        if len(some) == len(theirs_on(report["file"], table)[report["rival"]])
    }
    shown = Results([record for some in whole.values() for record in some.values()], rules, backbone)
    return to_rst(study_tables(study, [shown]))


def state(studies: list[str], results: list[Results], panel: Panel) -> str:
    """How much of each study is there, and what it cost."""
    rows, cost = [], []
    for r in results:
        settings = RunSettings(Path(), r.backbone, checkpoint_of(r.backbone), r.protocol)
        known = {record.key: record for record in r.records}
        for name in studies:
            jobs = get_study(name).jobs(panel, r.protocol)
            keys = {settings.key(job, get_arm(arm)) for job in jobs for arm in job.arms}
            there = [known[key] for key in keys if key in known]
            done = sum(record.ok for record in there)
            tables = {key.dataset for key in keys}
            whole = tables - {key.dataset for key in keys if key not in known or not known[key].ok}
            figures = (len(keys), done, len(there) - done, len(keys) - len(there), len(tables), len(whole))
            rows.append((label(name), label(r.backbone), *map(count, figures)))
        ok = [record for record in r.records if record.ok]
        hours = sum(record.seconds.get("cpu", record.seconds["total"]) for record in ok) / 3600
        loading = sum(record.seconds["load"] for record in ok) / 3600
        cells = (count(len(ok)), count(len(r.records) - len(ok)), count(hours, digits=2), count(loading, digits=2))
        cost.append((label(r.backbone), Cell(f"``{r.checkpoint}``"), label(r.protocol.name), *cells))
    columns = ("Study", "Backbone", "Cells", "Done", "Failed or excluded", "Not run yet", "Tables", "Whole tables")
    costs = ("Backbone", "Checkpoint", "Protocol", "Cells", "Failed or excluded", "CPU hours", "Hours of loading, wall")
    notes = (
        "A cell is one arm on one fold of one table; studies share cells. Widths of equal-memory's grid come on top.",
        *(note for r in results for note in failures(r)),
    )
    tables = [ReportTable("What is run", columns, tuple(rows), notes), ReportTable("Cost", costs, tuple(cost))]
    return to_rst(tables).replace("\\`\\`", "``")


def main() -> None:
    """Run every study for the backbone, then render."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panel", required=True, help="folder of tables")
    parser.add_argument("--backbone", nargs="+", default=["tabpfn-v1"])
    parser.add_argument("--protocol", default="paper")
    parser.add_argument("--results", type=Path, default=Path("bench-results"))
    parser.add_argument("--page", default="results.rst", help="page of docs/ that is written")
    parser.add_argument("--only", nargs="+", choices=STUDIES, help="default: the studies of the page")
    parser.add_argument("--without", nargs="*", default=[], help="arms to leave for another time")
    parser.add_argument("--tables", nargs="+", help="run only these; the page is written from all that are there")
    parser.add_argument("-j", dest="jobs", type=int, default=1, help="jobs at a time")
    parser.add_argument("--render-only", action="store_true", help="run nothing")
    parser.add_argument("--again", action="store_true", help="run again what other code than the present recorded")
    args = parser.parse_args()
    page = DOCS / args.page
    shown = re.findall(r"^\.\. results:(\S+):begin$", page.read_text(encoding="utf-8"), re.MULTILINE)
    args.only = args.only or [name for name in STUDIES if name in shown]
    if missing := {"state", *args.only} - set(shown):
        raise DataError(f"{page} has no markers for {', '.join(sorted(missing))}.")
    rules, panel = get_protocol(args.protocol), load_panel(args.panel)
    protocols = unpack(args.results)
    for backbone in args.backbone if not args.render_only else []:
        reuse: Reuse = "present" if args.again else "yes"
        settings = RunSettings(args.results, backbone, checkpoint_of(backbone), rules, reuse=reuse)
        run(panel, settings, args)
    loaded = [Results.load(args.results, rules, backbone) for backbone in args.backbone]
    text = page.read_text(encoding="utf-8")
    parts = {name: section(get_study(name), loaded, panel) for name in args.only}
    parts["state"] = state([name for name in STUDIES if name in shown], loaded, panel)
    if "hdlss" in shown:
        parts["hdlss"] = published(args.results, args.backbone[0])
    for name, part in parts.items():
        pattern = rf"(\.\. results:{name}:begin\n).*?(\.\. results:{name}:end)"
        text = re.sub(pattern, lambda m, part=part: f"{m[1]}\n{part}\n{m[2]}", text, flags=re.DOTALL)
    page.write_text(text, encoding="utf-8")
    pack(args.results, protocols | {rules.name, get_study("hdlss").protocol})
    print(f"Written: {page}")


if __name__ == "__main__":
    main()
