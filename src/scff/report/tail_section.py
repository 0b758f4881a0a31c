"""Was the Tail let in, and why? The gate's numbers as HTML, and what other rows say about its decision."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np

from scff.gate.decide import refuse
from scff.gate.record import TailGate
from scff.report.checks import Check, checks, verdict
from scff.report.marks import badge, meter, signed
from scff.report.quality import Quality
from scff.report.subject import Subject
from scff.report.svg import significant

__all__ = ["TailDecision", "decision", "tail"]

_CLEAR = 0.005  # nats of prototype NLL; less than this is not worth a word


@dataclass(frozen=True)
class TailDecision:
    """What became of the Tail.

    Attributes
    ----------
    gate : TailGate
        Of the heaviest reading that has the Tail in it, otherwise of the one that is described.
    let_in : bool
    reason : str
        A clause.
    weight : float
        Of that reading in the answer.
    """

    gate: TailGate
    let_in: bool
    reason: str
    weight: float = 1.0


def decision(subject: Subject) -> TailDecision | None:
    """What became of the Tail; None where there was nothing to decide."""
    for reading in subject.fitted.readings:
        gate = next(iter(reading.gates), None)
        asked = reading.choice.presentation.name == "tail"
        if gate is not None and (asked or gate.accepted is not None):
            return TailDecision(gate, gate.accepted is not None, gate.reason, reading.choice.weight)
    if subject.gate is None:
        return None
    reason = subject.gate.reason
    if subject.method == "auto":  # the Core is read as it is; why, the trial knows
        reason = _why_not(subject)
    return TailDecision(subject.gate, False, reason)


def _why_not(subject: Subject) -> str:
    """Why a trial gave the Tail no weight."""
    rule = subject.fitted.settings.rule
    trial = subject.fitted.verdicts[0]
    n_tail_leaves = len(subject.plan.tail_leaves)
    if rule is None:
        return "the Tail is switched off"
    refusal = refuse(subject.fitted.y, n_tail_leaves=n_tail_leaves, rule=rule)
    if refusal is not None:
        return refusal.reason
    if not trial.tried:
        return "nothing was tried"
    with_tail = [one.loss for one in trial.tried if one.name == "tail"]
    if not with_tail:
        return "the Tail is not among the readings that were tried"
    core = trial.tried[0].loss
    return f"the Tail earned no weight on held-back rows (loss {min(with_tail):.3f} with it, {core:.3f} without)"


def tail(subject: Subject, quality: Quality | None, hidden_gain: float | None) -> str:
    """Was the Tail let in, and why?"""
    decided = decision(subject)
    if decided is None:
        return f'<p class="say">{_without_gate(subject)}</p>'
    gate = decided.gate
    if decided.let_in:
        part = "" if decided.weight == 1.0 else f", in the part of the answer that weighs {decided.weight:.0%}"
        say = (
            f"{badge('let in', True)} Yes: {escape(decided.reason)}. What the Tail says beyond the Core "
            f"is added with step α = <b data-value='alpha'>{gate.alpha:.3f}</b>{part}."
        )
    else:
        say = (
            f"{badge('kept out', False)} No: {escape(decided.reason)}. Nothing of it is added to the Core "
            "(α = <b data-value='alpha'>0</b>), and predicting costs nothing for it."
        )
    how = _tail_on_test(quality) + _tail_on_hidden(hidden_gain)
    if gate.candidates:
        how += (
            '<p class="muted small">The labelled rows are dealt into two halves, A and B. What the Tail adds beyond '
            f"the Core ({max(gate.rho, 0.0):.0%} of it was already there) is tried as it is (raw) and pulled towards "
            "the classes (prototype). It must help in both halves; the step α is the smaller of what each half would "
            "choose. This is an acceptance test on the support, not a validation set.</p>"
        )
    return f'<p class="say">{say}</p>{how}' + "".join(_candidate(gate, i) for i in range(len(gate.candidates)))


def _without_gate(subject: Subject) -> str:
    if subject.reading is None:
        return "There is no Tail: nothing was folded."
    if subject.folds_tokens:
        return "Yes, without a gate: this backbone keeps a token per column and folds the Tail into slots."
    return {
        "raw-core": "This method never looks at the Tail: the Core alone goes through the backbone, in one leaf.",
        "mass-huber": "There is no gate in this method: a robust mean takes every leaf in.",
    }.get(subject.method, "There is no Tail: one leaf holds every column.")


def _tail_on_test(quality: Quality | None) -> str:
    """What letting the Tail in is worth on the test rows: the question the gate can only ask of the support."""
    if quality is None or quality.core_accuracy is None or quality.core_log_loss is None:
        return ""
    gain = quality.core_log_loss - quality.log_loss
    word = "better" if gain > 0 else "worse"
    advice = "" if gain > 0 else (' On rows like these <code>tail="off"</code> is the better choice.')
    return (
        f"<p><b>On the test rows the Tail made the model {word}</b>: log-loss {quality.log_loss:.3f} with it against "
        f'<span data-value="core-log-loss">{quality.core_log_loss:.3f}</span> without it, accuracy '
        f'{quality.accuracy:.1%} against <span data-value="core-accuracy">{quality.core_accuracy:.1%}</span>'
        f".{advice}</p>"
    )


def _tail_on_hidden(gain: float | None) -> str:
    """The gate's question asked again of rows whose labels the feature encoder has not seen."""
    if gain is None or not np.isfinite(gain):
        return ""
    if abs(gain) < _CLEAR:
        verdict_, does = "see no difference", "changes nothing to speak of"
    else:
        verdict_, does = ("agree", "helps") if gain > 0 else ("disagree", "does not help")
    return (
        f"<p><b>Labelled rows read as new ones {verdict_}.</b> When each half of them is read without its labels, as "
        f"rows to be predicted are, the Tail {does}: it changes the prototype NLL by "
        f'<span data-value="hidden-change">{signed(0.0 - gain)}</span>.</p>'
    )


def _candidate(gate: TailGate, index: int) -> str:
    candidate = gate.candidates[index]
    body = "".join(_check(row) for row in checks(candidate, gate))
    result = badge("passed", True) if candidate.passed else badge("failed", False)
    if gate.accepted == candidate.name:
        result = badge("passed, taken", True)
    return (
        f'<div class="candidate" data-candidate="{candidate.name}"><h3>{candidate.name.capitalize()} candidate '
        f"{result}</h3><p>α = min(α<sub>A</sub> {candidate.alpha_a:.3f}, α<sub>B</sub> {candidate.alpha_b:.3f}) = "
        f'<b>{candidate.alpha:.3f}</b>. {escape(verdict(candidate, gate))}</p><div class="wide"><table><thead><tr>'
        '<th scope="col">Check</th><th scope="col" class="left">On</th><th scope="col">Core alone</th><th scope="col">'
        'with Tail</th><th scope="col">Margin</th><th scope="col" class="left">Worse | better</th><th scope="col">'
        f"Result</th></tr></thead><tbody>{body}</tbody></table></div></div>"
    )


def _check(row: Check) -> str:
    kind, mark, word = ("ok", "✓", "passed") if row.passed else ("fail", "✗", "failed")
    result = f'<span class="{kind}" title="{word}">{mark}<span> {word}</span></span>'
    if not row.counts:
        result = "not asked"
    return (
        f'<tr class="{"" if row.counts else "not-asked"}"><td>{row.name}</td><td class="left">{row.where}</td>'
        f"<td>{significant(row.before, 3)}</td><td>{significant(row.after, 3)}</td><td>{signed(row.margin)}</td>"
        f'<td class="margin" title="{row.relative:+.2%}">{meter(row.relative)}</td><td>{result}</td></tr>'
    )
