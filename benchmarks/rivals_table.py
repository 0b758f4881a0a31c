"""What the records of ``rivals.py`` say: means, ratios, bars met or not, every table, the published folds, a figure.

Ours are the arms with a backbone in their name ("auto/tabpfn-v1"), all others are rivals. Arms recorded on every split
stand in one table, which the bars are held against; where others have some of the splits, a second table shows all arms
on those. Tables of more than ten classes stand apart.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

#: Most that the log-loss of the default may be, as a share of the best rival's, by labelled rows.
RATIO = {"auto/tabpfn-v1": {64: 0.85, 256: 0.80, 512: 0.80}, "auto/nano": {64: 0.90, 256: 0.90, 512: 0.90}}
#: Most log-loss that a table may lose against tuned logistic regression.
BEHIND = 0.05
#: CPU seconds, and the largest table (labelled rows, columns) that must not take more; of the rows, at least half.
SECONDS = ((5.0, 64, 7_200), (15.0, 512, 1_050))
#: Names on the figure, where a record's own says too little.
READABLE = {
    "auto/tabpfn-v1": "scff auto, tabpfn-v1",
    "auto/nano": "scff auto, nano",
    "lightgbm": "LightGBM, tuned",
    "logistic": "logistic regression, tuned",
    "logistic-inner": "logistic regression, scaled inside its folds",
    "scff/tabpfn-v1": "the paper's method, tabpfn-v1",
    "random-forest": "random forest",
}
LINEAR = ("logistic", "logistic-plain")
WIDE_5K = "wide-v2-5k"
METRICS = ["accuracy", "log_loss", "auc", "cpu_seconds"]
SPLIT = ["table", "rows", "seed"]

Bar = tuple[str, str, bool | None]


def is_ours(arm: str) -> bool:
    """Whether an arm is not a rival."""
    return "/" in arm


def common(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the splits that every arm of the frame has."""
    arms = frame.groupby(SPLIT)["arm"].transform("nunique")
    return frame[arms == frame["arm"].nunique()]


def whole(frame: pd.DataFrame) -> pd.DataFrame:
    """Keep the arms that have every split of the frame."""
    splits = frame.groupby("arm")[SPLIT[0]].transform("size")
    return frame[splits == len(frame.groupby(SPLIT))]


def means(frame: pd.DataFrame) -> pd.DataFrame:
    """Means of every arm over the common splits, best log-loss first; the mean AUC is over splits that have one."""
    return common(frame).groupby("arm")[METRICS].mean().sort_values("log_loss")


def best(table: pd.DataFrame, metric: str) -> tuple[str, float] | None:
    """Return the rival of the least log-loss or of the largest of anything else."""
    rivals = table.loc[[arm for arm in table.index if not is_ours(arm)], metric]
    if rivals.empty:
        return None
    arm = rivals.idxmin() if metric == "log_loss" else rivals.idxmax()
    return str(arm), float(rivals[arm])


def show(header: list[str], lines: list[list[str]]) -> None:
    """Print a table of Markdown."""
    print(f"| {' | '.join(header)} |\n|{'---|' * len(header)}")
    for line in lines:
        print(f"| {' | '.join(line)} |")


def size_tables(wide: pd.DataFrame) -> Iterator[Bar]:
    """Print the means of every size; yield what has to hold there."""
    for rows, frame in wide.groupby("rows"):
        table = means(whole(frame))
        print(f"\n## {rows} labelled rows, {len(frame.groupby(SPLIT))} splits\n")
        print_means(table)
        if len(table) < frame["arm"].nunique():
            print(f"\nAll arms, on the {len(common(frame).groupby(SPLIT))} splits that every one of them has:\n")
            print_means(means(frame))
        loss, hits = best(table, "log_loss"), best(table, "accuracy")
        for arm, bars in RATIO.items():
            measured = arm in table.index and loss is not None and hits is not None
            ratio_bar = f"{arm}, {rows} rows: log-loss at most {bars[rows]:.2f} of the best rival's"
            rival = "tuned logistic regression" if arm.endswith("nano") else "the best rival"
            hits_bar = f"{arm}, {rows} rows: accuracy at least that of {rival}"
            if not measured or (arm.endswith("nano") and "logistic" not in table.index):
                yield ratio_bar, "not measured", None
                yield hits_bar, "not measured", None
                continue
            assert loss is not None
            assert hits is not None
            ours = table.loc[arm]
            ratio = ours["log_loss"] / loss[1]
            print(f"\n{arm}: log-loss {ratio:.3f} times that of {loss[0]}, the best rival.")
            yield ratio_bar, f"{ratio:.3f} ({ours['log_loss']:.4f}; {loss[0]} {loss[1]:.4f})", ratio <= bars[rows]
            name, bar = ("logistic", table.loc["logistic", "accuracy"]) if arm.endswith("nano") else hits
            yield hits_bar, f"{ours['accuracy']:.2%} ({name} {bar:.2%})", bool(ours["accuracy"] >= bar)


def print_means(table: pd.DataFrame) -> None:
    """Print accuracy, log-loss, AUC and CPU seconds of every arm."""
    header = ["arm", "accuracy %", "log-loss", "AUC", "CPU seconds"]
    lines = [
        [f"**{arm}**" if is_ours(arm) else arm, f"{100 * a:.1f}", f"{loss:.3f}", f"{auc:.3f}", f"{cpu:.1f}"]
        for arm, a, loss, auc, cpu in table[METRICS].itertuples(name=None)
    ]
    show(header, lines)


def every_table(wide: pd.DataFrame, arm: str = "auto/tabpfn-v1") -> Iterator[Bar]:
    """Print accuracy and log-loss of each table; yield where the default is too far behind logistic regression."""
    worst: tuple[float, str] | None = None
    for rows, frame in wide.groupby("rows"):
        frame = whole(frame)
        if frame.empty:
            continue
        hits = frame.pivot_table(index="table", columns="arm", values="accuracy", sort=False)
        loss = frame.pivot_table(index="table", columns="arm", values="log_loss", sort=False)
        order = means(frame).index
        rivals = loss[[one for one in order if not is_ours(one)]]
        print(f"\n## Every table, {rows} labelled rows: accuracy % / log-loss\n")
        against = arm in order and not rivals.empty
        lines = []
        for name in loss.index:
            least = loss.loc[name].min()
            cells = [
                f"{100 * hits.loc[name, one]:.1f} / "
                + (f"**{loss.loc[name, one]:.3f}**" if loss.loc[name, one] == least else f"{loss.loc[name, one]:.3f}")
                for one in order
            ]
            if against:
                lost = loss.loc[name, arm] - rivals.loc[name].min()
                cells.append(f"{lost:+.3f} {rivals.loc[name].idxmin()}" if lost > 0 else "")
            lines.append([str(name), *cells])
        show(["table", *order, *(["lost to"] if against else [])], lines)
        if against and "logistic" in order:
            behind = loss[arm] - loss["logistic"]
            worst = max(worst or (-1e9, ""), (float(behind.max()), f"{behind.idxmax()}, {rows} rows"))
    bar = f"{arm}: on no table more than {BEHIND} log-loss behind logistic regression"
    yield bar, f"{worst[0]:+.3f} on {worst[1]}" if worst else "not measured", worst[0] <= BEHIND if worst else None


def many_classes(frame: pd.DataFrame) -> Iterator[Bar]:
    """Print tables of more than ten classes; the default must be level with logistic regression."""
    for name, of_table in frame.groupby("table"):
        asked = common(of_table[of_table["arm"].isin(RATIO)])[SPLIT].drop_duplicates()
        of_table = whole(of_table.merge(asked, on=SPLIT))
        table = means(of_table)
        print(f"\n## {name}, up to {of_table['classes'].max()} classes of at least four labelled rows\n")
        print_means(table)
        for arm in RATIO:
            bar = f"{name}, {arm}: accuracy at least logistic regression's"
            if arm not in table.index or "logistic" not in table.index:
                yield bar, "not measured", None
                continue
            ours, theirs = table.loc[arm, "accuracy"], table.loc["logistic", "accuracy"]
            yield bar, f"{ours:.2%} ({theirs:.2%})", bool(ours >= theirs)


def published_folds(frame: pd.DataFrame, path: Path) -> Iterator[Bar]:
    """Print the published folds beside the published figures, paired by fold."""
    published = pd.read_csv(path).rename(columns={"fold": "seed", "method": "arm"})
    published["arm"] = "published: " + published["arm"]
    published["rows"] = "published"
    wide_5k = f"published: {WIDE_5K}"
    of_tables: list[pd.DataFrame] = []
    for name, of_table in frame.groupby("table"):
        both = common(pd.concat([of_table, published[published["table"] == name]]))
        table = both.groupby("arm")[["accuracy", "auc", "log_loss"]].mean().sort_values("accuracy", ascending=False)
        print(f"\n## {name}, {both['seed'].nunique()} published folds; difference to TabPFN-Wide 5k, paired by fold\n")
        folds = both.pivot_table(index="seed", columns="arm", values=["accuracy", "auc"])
        lines = []
        for arm, hits, auc, loss in table.itertuples(name=None):
            paired = []
            for metric in ("accuracy", "auc"):
                d = folds[metric][arm] - folds[metric][wide_5k]
                paired.append(f"{d.mean():+.3f} ± {d.sem():.3f}" if arm != wide_5k else "")
            lines.append([str(arm), f"{100 * hits:.1f}", f"{auc:.3f}", f"{loss:.3f}", *paired])
        show(["arm", "accuracy %", "AUC", "log-loss", "accuracy, paired", "AUC, paired"], lines)
        of_tables.append(table)
        yield from _level(str(name), table, wide_5k)
    if len(of_tables) > 1:
        every = pd.concat(of_tables).groupby(level=0)
        mean = every.mean()[every.size() == len(of_tables)]
        yield from _level(f"mean of {len(of_tables)} tables", mean, wide_5k)


def dealt_folds(frame: pd.DataFrame) -> None:
    """Print the means of folds that others than the published seed has dealt, table by table."""
    for rows, dealt in frame.groupby("rows"):
        dealt = whole(dealt)
        by_table = dealt.groupby(["arm", "table"])[["accuracy", "auc", "log_loss"]].mean()
        tables = sorted(dealt["table"].unique())
        print(f"\n## Folds {rows}: accuracy % / AUC / log-loss\n")
        lines = []
        for arm, mean in by_table.groupby("arm").mean().sort_values("log_loss").iterrows():
            cells = [mean, *(by_table.loc[arm, name] for name in tables)]
            told = [f"{100 * one['accuracy']:.2f} / {one['auc']:.4f} / {one['log_loss']:.3f}" for one in cells]
            lines.append([str(arm), *told])
        show(["arm", "mean", *tables], lines)


def _level(name: str, table: pd.DataFrame, wide_5k: str) -> Iterator[Bar]:
    """Whether the default is level with logistic regression and TabPFN-Wide, by accuracy and by AUC."""
    for arm in RATIO:
        for rival in (*LINEAR, wide_5k):
            bar = f"{name}, published folds, {arm}: accuracy and AUC at least those of {rival}"
            if arm not in table.index or rival not in table.index:
                yield bar, "not measured", None
                continue
            ours, theirs = table.loc[arm, ["accuracy", "auc"]], table.loc[rival, ["accuracy", "auc"]]
            told = f"{ours['accuracy']:.2%} / {ours['auc']:.4f} ({theirs['accuracy']:.2%} / {theirs['auc']:.4f})"
            yield bar, told, bool((ours >= theirs - 1e-9).all())


def seconds(frame: pd.DataFrame, arm: str = "auto/tabpfn-v1") -> Iterator[Bar]:
    """Whether the default takes no longer than it may, where the tables are about as large as the bars mean."""
    for most, rows, columns in SECONDS:
        shape = (frame["support"] > rows // 2) & (frame["support"] <= rows)
        near = frame[(frame["arm"] == arm) & shape & frame["columns"].between(0.9 * columns, columns)]
        bar = f"{arm}: up to {rows} x {columns:,} within {most:g} CPU seconds"
        if near.empty:
            yield bar, "not measured", None
            continue
        slow = near.loc[near["cpu_seconds"].idxmax()]
        told = f"{slow['cpu_seconds']:.1f} on {slow['table']} ({slow['support']:.0f} x {slow['columns']:,.0f})"
        yield bar, told, bool(slow["cpu_seconds"] <= most)


def report(frame: pd.DataFrame, data: Path, wide: list[str]) -> None:
    """Print everything that the records say."""
    folds, dealt = frame["rows"] == "published", frame["rows"].astype(str).str.startswith("dealt")
    ours = frame[~folds & ~dealt]
    of_wide = ours[ours["table"].isin(wide)]
    bars = [*size_tables(of_wide), *every_table(of_wide), *many_classes(ours[~ours["table"].isin(wide)])]
    if folds.any():
        bars += published_folds(frame[folds], data / "hdlss" / "tabpfn_wide_folds.csv")
    if dealt.any():
        dealt_folds(frame[dealt])
    bars += seconds(ours)
    print("\n## What has to hold\n")
    words = {True: "met", False: "**NOT MET**", None: "-"}
    show(["bar", "figure", ""], [[bar, figure, words[met]] for bar, figure, met in bars])
    print()


def draw(wide: pd.DataFrame, path: Path) -> None:
    """Mean log-loss and accuracy of the arms that have every split of every size, best log-loss on top."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt
    from matplotlib.ticker import MaxNLocator

    wide = wide[wide["rows"].map(lambda rows: not isinstance(rows, str))]
    by_size = {rows: means(whole(frame)) for rows, frame in wide.groupby("rows")}
    losses = pd.concat({rows: table["log_loss"] for rows, table in by_size.items()}, axis=1).dropna()
    order = losses.mean(axis=1).sort_values(ascending=False).index
    height = 0.28 * len(order) + 1
    figure, axes = plt.subplots(
        2, len(by_size), figsize=(3.6 * len(by_size), 2 * height), sharey=True, squeeze=False, layout="constrained"
    )
    for column, (rows, table) in enumerate(by_size.items()):
        for row, (metric, label, scale) in enumerate((("log_loss", "log-loss", 1), ("accuracy", "accuracy %", 100))):
            axis = axes[row, column]
            values = table[metric].reindex(order) * scale
            colours = ["#c0392b" if is_ours(arm) else "#7f8c8d" for arm in order]
            axis.scatter(values, range(len(order)), c=colours, zorder=2)
            axis.set_yticks(range(len(order)), [READABLE.get(arm, arm) for arm in order])
            axis.xaxis.set_major_locator(MaxNLocator(4))
            axis.grid(axis="x", alpha=0.3)
            axis.set_xlabel(f"mean {label}, {'lower' if metric == 'log_loss' else 'higher'} is better")
            if row == 0:
                axis.set_title(f"{rows} labelled rows")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)
