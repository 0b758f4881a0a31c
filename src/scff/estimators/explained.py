"""What a fitted estimator shows of itself; the work is the report's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

    from scff.evaluate.evaluation import Evaluation
    from scff.report import Report

__all__ = ["Explained"]


class Explained:
    """Evidence of the columns, and a report."""

    def column_evidence(
        self, *, evaluation: Evaluation | None = None, shuffled: int | Literal["auto"] = "auto"
    ) -> pd.DataFrame:
        """What each column brought: its own evidence, which way it goes, its leaf, and what it is worth to the model.

        Parameters
        ----------
        evaluation : Evaluation, optional
            What `scff.evaluate.evaluate` found on the same table: adds how steadily each column was chosen.
        shuffled : int or "auto", default="auto"
            How many of the strongest columns are shuffled among held-back rows; 0 for none. ``"auto"`` takes 50, and
            fewer below about 60 labelled rows, so that it costs about ten predictions.

        Returns
        -------
        DataFrame
            One row per column, strongest first; `scff.report.column_evidence` says what each field means.
        """
        from scff.report import column_evidence

        return column_evidence(self, evaluation=evaluation, shuffled=shuffled)  # type: ignore[arg-type]

    def report(
        self,
        X_test: Any = None,
        y_test: Any = None,
        *,
        title: str | None = None,
        evaluation: Evaluation | None = None,
    ) -> Report:
        """What this model did and why, as one HTML page.

        Parameters
        ----------
        X_test : array-like or DataFrame, optional
            Rows held back from `fit`; without them the report says nothing about quality.
        y_test : array-like or str, optional
            Their labels or numbers, or the name of their column in ``X_test``.
        title : str, optional
            Heading of the page.
        evaluation : Evaluation, optional
            What `scff.evaluate.evaluate` found on the same table: shows how steadily each column was chosen.

        Returns
        -------
        Report
            Shows itself in a notebook; ``report.save("report.html")`` writes one self-contained file.
        """
        from scff.report import make_report

        return make_report(
            self,  # type: ignore[arg-type]
            test=X_test,
            target=y_test,
            title=title,
            evaluation=evaluation,
        )
