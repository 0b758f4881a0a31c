"""A rehearsal: half of the support plays the support, the other half the queries.

A feature encoder may read the labels of support rows (TabICLv2, TabPFN-3 and nano do). Their messages then know the
answer whatever the columns say, and checks on support messages alone let nearly every Tail in. Rows that come in as
queries carry no label: what the model predicts for them is what it will do for new rows.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch

from scff import tail as tail_
from scff.backbones.base import IntArray, RowBackbone, RowView
from scff.engines import Engine
from scff.evidence import alternate_halves
from scff.gates import Candidate, Rehearsed
from scff.plan import FoldPlan
from scff.tables import Table

__all__ = ["Rehearsal"]

FloatArray = npt.NDArray[np.float64]

#: Shares of the gate's step that are tried. Labels inside the messages make the Fisher step too long.
STEPS = (1.0, 0.5, 0.25)

#: Most rows of a half. What a rehearsal costs is then bounded however long the table is.
HALF_ROWS = 512


@dataclass(frozen=True)
class Rehearsal:
    """What is needed to play half a support against the other half, for one of the backbone's views.

    Attributes
    ----------
    backbone : RowBackbone
    support : Table
    y : ndarray of int
        Class codes of the support rows.
    n_estimators, random_state : int
        Of the ensemble of views.
    member : int
        Which view of the ensemble.
    limit : int, optional
        Budget of bytes for encoding.
    """

    backbone: RowBackbone
    support: Table
    y: IntArray
    n_estimators: int = 1
    random_state: int = 0
    member: int = 0
    limit: int | None = None

    def look(self, fitted: IntArray, new: IntArray, widest: int) -> tuple[RowView, Table]:
        """The backbone's view of some support rows, and others as query rows.

        Parameters
        ----------
        fitted, new : ndarray of int
            Rows of the support.
        widest : int
            Columns of the widest leaf, for the budget.

        Returns
        -------
        view : RowView
        rows : Table
        """
        view = self.backbone.views(
            self.support.take(fitted),
            np.unique(self.y[fitted], return_inverse=True)[1],
            n_estimators=self.n_estimators,
            cache=True,
            random_state=self.random_state,
        )[self.member]
        if self.limit is not None:
            view.footprint(widest, self.limit)  # shrinks the view's blocks to the budget
        return view, self.support.take(new)

    def run(self, plan: FoldPlan, rule: tail_.TailRule, engine: Engine) -> Rehearsed:
        """Let each half decide on the Tail, and let the model's own loss on the other half judge the decision.

        The second direction is played only if the first was a success: most Tails are turned away at the price of
        encoding them once. The plan is the whole support's, so the Core has seen the labels of both halves and the
        Tail is what they left over: a rehearsal errs on the side of the Core.

        Parameters
        ----------
        plan : FoldPlan
        rule : TailRule
        engine : Engine

        Returns
        -------
        Rehearsed
        """
        halves = [_spread(half, self.y) for half in alternate_halves(self.y)]
        played: list[tuple[FloatArray, FloatArray]] = []
        tried: tuple[Candidate, ...] = ()
        for fitted, new in (halves, halves[::-1]):
            candidates, losses = self._direction(fitted, new, plan, rule, engine)
            tried = tried or candidates
            if losses is None:
                return Rehearsed((), 0.0, 0.0, "half of the labelled rows alone did not let it in", 0.0, tried)
            played.append(losses)
            if not (losses[1].mean(axis=1) < losses[0].mean()).any():
                break
        core_Q = np.concatenate([core for core, _ in played])
        gains_FQ = core_Q - np.concatenate([updated for _, updated in played], axis=1)
        best = int(gains_FQ.mean(axis=1).argmax())
        pairs = tuple((float(core.mean()), float(updated[best].mean())) for core, updated in played)
        mean, error = float(gains_FQ[best].mean()), float(gains_FQ[best].std() / np.sqrt(len(core_Q)))
        reason = None
        if len(pairs) < 2 or any(after >= before for before, after in pairs):
            reason = "it made the model worse on held-back rows"
        elif mean <= error:
            reason = "what it brought on held-back rows was within the noise"
        return Rehearsed(pairs, mean, error, reason, STEPS[best], tried)

    def _direction(
        self, fitted: IntArray, new: IntArray, plan: FoldPlan, rule: tail_.TailRule, engine: Engine
    ) -> tuple[tuple[Candidate, ...], tuple[FloatArray, FloatArray] | None]:
        """What the fitted half tried, and losses_Q of the new rows without the Tail and losses_FQ with it, by step."""
        view, rows = self.look(fitted, new, max(map(len, plan.leaves)))
        core_leaves, tail_leaves = _known_leaves(plan.core_leaves, view), _known_leaves(plan.tail_leaves, view)
        if not core_leaves or not tail_leaves:
            return (), None
        core = engine.encode(view, core_leaves, "rehearsal: Core leaves")
        side = engine.encode(view, tail_leaves, "rehearsal: Tail leaves")
        try:
            decision = tail_.gate(
                core.mean_SE.cpu().numpy(),
                side.mean_SE.cpu().numpy(),
                self.y[fitted],
                n_tail_leaves=len(tail_leaves),
                rule=rule,
            )
            if decision.support_update is None:
                return decision.candidates, None
            queries = engine.queries(view, rows)
            c_QE, t_QE = core.query(queries), side.query(queries)
        finally:
            core.drop()
            side.drop()
        update_QE = torch.from_numpy(decision.update(c_QE.cpu().numpy(), t_QE.cpu().numpy())).to(c_QE)
        update_SE = torch.from_numpy(decision.support_update).to(core.mean_SE)
        codes = np.unique(self.y, return_inverse=True)[1][new]

        def losses(step: float) -> FloatArray:
            context = view.build_context(core.mean_SE + step * update_SE)
            return self._losses(view.predict(context, c_QE + step * update_QE), codes)

        return decision.candidates, (losses(0.0), np.stack([losses(step) for step in STEPS]))

    def _losses(self, logits_QK: torch.Tensor, codes: IntArray) -> FloatArray:
        proba = self.backbone.combine([logits_QK.float().cpu().numpy()])
        return -np.log(np.maximum(proba[np.arange(len(codes)), codes], 1e-12))


def _known_leaves(leaves: Sequence[IntArray], view: RowView) -> list[IntArray]:
    """Leaves without the columns a view of fewer rows drops: they may be constant there."""
    kept = [leaf[np.isin(leaf, view.columns)] for leaf in leaves]
    return [leaf for leaf in kept if len(leaf)]


def _spread(half: IntArray, y: IntArray) -> IntArray:
    """At most `HALF_ROWS` rows of a half, evenly over its classes, in their order; at least two of each class."""
    if len(half) <= HALF_ROWS:
        return half
    sorted_rows = half[np.argsort(y[half], kind="stable")]
    picked = sorted_rows[np.linspace(0, len(half) - 1, HALF_ROWS).round().astype(np.int64)]
    rare = [half[y[half] == k][:2] for k in np.unique(y[half])]
    return np.unique(np.concatenate([picked, *rare]))
