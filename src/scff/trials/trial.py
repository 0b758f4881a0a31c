"""A rehearsal: half of the support plays the support, the other half the queries.

Two questions are put to it: does the Tail help, and do columns linked to the Core?

A feature encoder may read the labels of support rows (TabICLv2, TabPFN-3 and nano do). Their messages then know the
answer whatever the columns say, and checks on support messages alone let nearly every Tail in. Rows that come in as
queries carry no label: what the model predicts for them is what it will do for new rows.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from scff.backbones.base import Backbone, IntArray, RowView, TokenView
from scff.fold.encode import Engine
from scff.gate import decide as tail_
from scff.gate.class_evidence import alternate_halves
from scff.gate.record import Candidate, Rehearsed
from scff.plan.plan import FoldPlan
from scff.tables.table import Table

if TYPE_CHECKING:
    from scff.fold.algorithm import Compiled

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
    backbone : Backbone
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

    backbone: Backbone
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
        ).view(self.member)
        if self.limit is not None and not isinstance(view, TokenView):
            view.shrink_blocks(self.limit)
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
        return _judge(played, tried)

    def choose(
        self,
        plain: FoldPlan,
        linked: FoldPlan,
        compile_half: Callable[[RowView | TokenView, FoldPlan, IntArray], Compiled],
    ) -> Rehearsed:
        """Let each half of the support predict the other from the paper's Core and from the linked one.

        The linked Core must do better in both directions, and by more than the standard error: the same test as the
        Tail's, on the model's own loss.

        Parameters
        ----------
        plain, linked : FoldPlan
            Plans of the whole support that differ in what is linked to the Core.
        compile_half : callable
            Compiles the Core of a plan from a view of half the support and the codes of its rows.

        Returns
        -------
        Rehearsed
            It passed where the linked Core is the better one.
        """
        halves = [_spread(half, self.y) for half in alternate_halves(self.y)]
        n_classes = len(np.unique(self.y))
        if any(len(np.unique(self.y[half])) < n_classes for half in halves):
            return Rehearsed((), 0.0, 0.0, "a class has a single row")
        played: list[tuple[FloatArray, FloatArray]] = []
        for fitted, new in (halves, halves[::-1]):
            view, rows = self.look(fitted, new, max(map(len, (*plain.core_leaves, *linked.core_leaves))))
            cores = [_known_core(plan, view) for plan in (plain, linked)]
            if not len(cores[0].core):
                return Rehearsed((), 0.0, 0.0, "the Core is constant on half of the labelled rows")
            before, after = (
                self._losses(compile_half(view, core, self.y[fitted]).predict(rows), self.y[new]) for core in cores
            )
            played.append((before, after[None]))
            if after.mean() >= before.mean():
                break
        return _judge(played)

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


def _judge(played: Sequence[tuple[FloatArray, FloatArray]], tried: tuple[Candidate, ...] = ()) -> Rehearsed:
    """The verdict on losses_Q without and losses_FQ with what was tried, by step, of one direction or both."""
    without_Q = np.concatenate([before for before, _ in played])
    gains_FQ = without_Q - np.concatenate([after for _, after in played], axis=1)
    best = int(gains_FQ.mean(axis=1).argmax())
    pairs = tuple((float(before.mean()), float(after[best].mean())) for before, after in played)
    mean, error = float(gains_FQ[best].mean()), float(gains_FQ[best].std() / np.sqrt(len(without_Q)))
    reason = None
    if len(pairs) < 2 or any(after >= before for before, after in pairs):
        reason = "it made the model worse on held-back rows"
    elif mean <= error:
        reason = "what it brought on held-back rows was within the noise"
    return Rehearsed(pairs, mean, error, reason, STEPS[best], tried)


def _known_core(plan: FoldPlan, view: RowView | TokenView) -> FoldPlan:
    """The Core of a plan alone, without the columns a view of fewer rows drops."""
    core = plan.core[np.isin(plan.core, view.columns)]
    nothing = plan.tail[:0]
    return replace(
        plan, core=core, core_leaves=tuple(_known_leaves(plan.core_leaves, view)), tail=nothing, tail_leaves=()
    )


def _known_leaves(leaves: Sequence[IntArray], view: RowView | TokenView) -> list[IntArray]:
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
