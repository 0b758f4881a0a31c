"""Real tables out of R packages, as `rivals.py` takes them: a second opinion on tables that chose nothing.

    python benchmarks/r_tables.py FOLDER
    python benchmarks/rivals.py --data FOLDER --records RECORDS.jsonl --rows 64 256

Needs Rscript and the packages ALL, bladderbatch, multtest, HSMMSingleCell, mlbench, modeldata, kernlab, caret and pls.
In Debian these are r-bioc-all, r-bioc-bladderbatch, r-bioc-multtest, r-bioc-hsmmsinglecell, r-cran-mlbench,
r-cran-modeldata, r-cran-kernlab, r-cran-caret and r-cran-pls. Tables of more than 2,500 columns go to
``FOLDER/hdlss``, those whose target is a number to ``FOLDER/numbers``, for `of_numbers.py`.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
from pathlib import Path

import pandas as pd

EXPORT = r"""
write <- function(X, y, name, target = as.character(y)) {
  known <- !is.na(y)
  table <- data.frame(target = target[known], X[known, , drop = FALSE])
  write.csv(table, gzfile(paste0(name, ".csv.gz")), row.names = FALSE)
}
suppressMessages(library(ALL)); data(ALL)
X <- t(Biobase::exprs(ALL)); people <- Biobase::pData(ALL)
lineage <- substr(as.character(people$BT), 1, 1); stage <- substr(as.character(people$BT), 1, 2)
fusion <- as.character(people$mol.biol)
write(X, lineage, "all_bt")
some <- lineage == "B" & fusion %in% c("BCR/ABL", "NEG"); write(X[some, ], fusion[some], "all_bcr")
some <- stage %in% c("B1", "B2", "B3", "B4"); write(X[some, ], stage[some], "all_stage")
write(X, as.character(people$sex), "all_sex")
write(X, as.character(people$relapse), "all_relapse")
write(X, as.character(people$CR == "CR"), "all_cr")
suppressMessages(library(bladderbatch)); data(bladderdata)
write(t(Biobase::exprs(bladderEset)), as.character(Biobase::pData(bladderEset)$cancer), "bladder")
suppressMessages(library(multtest)); data(golub); write(t(golub), golub.cl, "golub")
suppressMessages(library(HSMMSingleCell)); data(HSMM_expr_matrix); data(HSMM_sample_sheet)
cells <- t(HSMM_expr_matrix); cells <- cells[, apply(cells > 0, 2, sum) >= 20]
write(cells, HSMM_sample_sheet$Hours, "hsmm")
library(mlbench); data(DNA); data(Sonar)
write(sapply(DNA[, -ncol(DNA)], function(column) as.integer(as.character(column))), DNA$Class, "dna")
write(Sonar[, 1:60], Sonar$Class, "sonar")
library(modeldata); data(cells); data(ad_data); data(grants)
write(cells[, -(1:2)], cells$class, "cells")
ad_data$Genotype <- as.integer(ad_data$Genotype)
write(ad_data[, names(ad_data) != "Class"], ad_data$Class, "ad_data")
columns <- grants_test[, names(grants_test) != "class"]
write(columns[, sapply(columns, is.numeric)], grants_test$class, "grants")
suppressMessages(library(kernlab)); data(spam); write(spam[, -58], spam$type, "spam")
of_numbers <- function(X, y, name) write(X, y, paste0("numbers-", name), as.numeric(y))
of_numbers(X, people$age, "all_age")
of_numbers(ad_data[, !names(ad_data) %in% c("Class", "tau")], ad_data$tau, "ad_tau")
suppressMessages(library(caret)); data(cox2); of_numbers(cox2Descr, log10(cox2IC50), "cox2")
data(tecator)
of_numbers(absorp, endpoints[, 1], "tecator_water")
of_numbers(absorp, endpoints[, 3], "tecator_protein")
suppressMessages(library(pls)); data(gasoline)
of_numbers(as.data.frame(unclass(as.matrix(gasoline$NIR))), gasoline$octane, "gasoline")
"""
WIDE = 2500


def main() -> None:
    """Let R write the tables, and keep them as Parquet with an index."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    known: dict[Path, list[dict[str, object]]] = {folder: [], folder / "hdlss": []}
    with tempfile.TemporaryDirectory() as exported:
        subprocess.run(["Rscript", "-e", EXPORT], cwd=exported, check=True)
        for file in sorted(Path(exported).glob("*.csv.gz")):
            read = pd.read_csv(file, low_memory=False)
            numbers = read.drop(columns="target").apply(pd.to_numeric, errors="coerce").astype("float32")
            numbers.columns = [f"c{i}" for i in range(numbers.shape[1])]
            where = folder / "hdlss" if numbers.shape[1] > WIDE else folder
            where.mkdir(parents=True, exist_ok=True)
            name, labels = file.name.removesuffix(".csv.gz"), read["target"]
            if name.startswith("numbers-"):
                (folder / "numbers").mkdir(parents=True, exist_ok=True)
                numbers.assign(target=labels).to_parquet(
                    folder / "numbers" / f"{name.removeprefix('numbers-')}.parquet"
                )
                continue
            labels = labels.astype(str)
            numbers.assign(target=labels).to_parquet(where / f"{name}.parquet")
            facts = {"rows": len(numbers), "features": numbers.shape[1], "classes": labels.nunique()}
            known[where].append({"name": name, **facts})
    for where, entries in known.items():
        pd.DataFrame(entries).to_csv(where / "index.csv", index=False)


if __name__ == "__main__":
    main()
