"""A table of Spark scored where its rows are.

pip install 'pyspark>=4'
spark-submit spark_scoring.py model.scff in.parquet out.parquet key
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence

import pandas as pd
from pyspark.sql import DataFrame, SparkSession

from scff.serving import Scorer


def predict(table: DataFrame, model: str, keep: Sequence[str] = ()) -> DataFrame:
    """Kept columns, predictions and probabilities of every row; executors load the model once each."""
    scorer = Scorer(model, keep=keep)

    def stage(batches: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
        return map(scorer, batches)

    # No rows have the columns and types of many: what comes out is known without scoring any.
    schema = table.sparkSession.createDataFrame(scorer(table.limit(0).toArrow())).schema
    return table.mapInPandas(stage, schema)


if __name__ == "__main__":
    model, source, target, *keep = sys.argv[1:]
    spark = SparkSession.builder.getOrCreate()
    predict(spark.read.parquet(source), model, keep).write.parquet(target)
