"""Was the Tail let in, and why? The gate's numbers as HTML, and what other rows say about its decision."""

from __future__ import annotations

from html import escape

import numpy as np

from scff.gate.record import TailGate
from scff.report.checks import Check, checks, rehearsal_checks, verdict
from scff.report.quality import Quality
from scff.report.svg import significant

__all__ = ["tail"]

_CLEAR = 0.005  # nats of prototype NLL; less than this is not worth a word


def tail(gate: TailGate | None, method: str, quality: Quality | None, hidden_gain: float | None) -> str:
    """Was the Tail let in, and why?"""
    if gate is None:
        why = {
            "native": "There is no Tail: nothing was folded.",
            "raw-core": "This method never looks at the Tail: the Core alone goes through the backbone, in one leaf.",
            "tokens": "Yes, without a gate: this backbone keeps a token per column and folds the Tail into slots.",
            "mass-huber": "There is no gate in this method: a robust mean takes every leaf in.",
        }.get(method, "There is no Tail: one leaf holds every column.")
        return f'<p class="say">{why}</p>'
    if gate.accepted is not None:
        say = (
            f'<span class="badge yes">let in</span> Yes: {escape(gate.reason)}. What the Tail says beyond the Core '
            f"is added "
            f"with weight α = <b data-value='alpha'>{gate.alpha:.4f}</b>."
        )
    else:
        say = (
            f'<span class="badge no">kept out</span> No: {escape(gate.reason)}. The model is exactly the folded Core '
            "(α = <b data-value='alpha'>0</b>), and predicting costs nothing for the Tail."
        )
    how = _tail_on_test(quality) + _tail_on_hidden(hidden_gain) + _rehearsal(gate)
    if gate.candidates:
        how += (
            '<p class="muted small">The labelled rows are dealt into two halves, A and B. What the Tail adds beyond '
            "the Core "
            f"(ρ = {gate.rho:.4g} of it was already there) is tried as it is (raw) and pulled towards the classes "
            "(prototype). It must help in both halves; the step α is the smaller of what each half would choose. "
            "This is an acceptance test on the support, not a validation set.</p>"
        )
        if gate.accepted is None and gate.rehearsed is not None:
            how += (
                '<p class="muted small">As the rehearsal turned the Tail away, the numbers below are those of its '
                "first half, which was dealt into two halves of its own.</p>"
            )
    return f'<p class="say">{say}</p>{how}' + "".join(_candidate(gate, i) for i in range(len(gate.candidates)))


def _tail_on_test(quality: Quality | None) -> str:
    """What letting the Tail in is worth on the test rows: the question the gate can only ask of the support."""
    if quality is None or quality.core_accuracy is None or quality.core_log_loss is None:
        return ""
    gain = quality.core_log_loss - quality.log_loss
    word = "better" if gain > 0 else "worse"
    advice = "" if gain > 0 else (' On rows like these <code>tail="off"</code> is the better choice.')
    return (
        f"<p><b>On the test rows the Tail made the model {word}</b>: log-loss {quality.log_loss:.4f} with it against "
        f'<span data-value="core-log-loss">{quality.core_log_loss:.4f}</span> for the Core alone, accuracy '
        f'{quality.accuracy:.4f} against <span data-value="core-accuracy">{quality.core_accuracy:.4f}</span>'
        f".{advice}</p>"
    )


def _tail_on_hidden(gain: float | None) -> str:
    """The gate's question asked again of rows whose labels the feature encoder has not seen."""
    if gain is None or not np.isfinite(gain):
        return ""
    if abs(gain) < _CLEAR:
        verdict_, does = "sees no difference", "changes nothing to speak of"
    else:
        verdict_, does = ("agrees", "helps") if gain > 0 else ("disagrees", "does not help")
    return (
        f"<p><b>A second look {verdict_}.</b> When each half of the labelled rows comes in as new rows, labels hidden "
        f"from the encoder, the Tail {does}: it changes the prototype NLL by "
        f'<span data-value="hidden-change">{-gain:+.4f}</span>.</p>'
    )


def _rehearsal(gate: TailGate) -> str:
    """What the model itself made of the Tail on held-back rows."""
    if gate.rehearsed is None:
        return ""
    badge = '<span class="badge yes">passed</span>' if gate.rehearsed.passed else '<span class="badge no">failed</span>'
    rows = rehearsal_checks(gate)
    said = "Half A alone did not let it in, so nothing was predicted."
    if rows:
        said = (
            f"Mean fall of the log-loss: <b data-value='rehearsed-gain'>{gate.rehearsed.gain:+.4f}</b>, standard error "
            f"{gate.rehearsed.error:.4f}."
        )
    return (
        f'<div class="candidate" data-candidate="rehearsal"><h3>Rehearsal {badge}</h3><p>This backbone reads labels '
        "while it encodes, so support rows know their own answer and the checks on them prove little. Each half of "
        "the labelled rows therefore predicts the other as if it were new, without the Tail and with it. The Tail "
        "must help in both directions, and by more than the standard error; where the first direction fails, the "
        f"second is not tried. {said}</p>" + (_table(rows) if rows else "") + "</div>"
    )


def _table(rows: list[Check]) -> str:
    body = "".join(_check(row) for row in rows)
    return (
        '<table><thead><tr><th scope="col">Check</th><th scope="col" class="left">On</th><th scope="col">Core alone'
        '</th><th scope="col">with Tail</th><th scope="col">Margin</th><th scope="col" class="left">Worse | better'
        f'</th><th scope="col">Result</th></tr></thead><tbody>{body}</tbody></table>'
    )


def _candidate(gate: TailGate, index: int) -> str:
    candidate = gate.candidates[index]
    rows = checks(candidate, gate)
    badge = '<span class="badge yes">passed</span>' if candidate.passed else '<span class="badge no">failed</span>'
    if gate.accepted == candidate.name:
        badge = '<span class="badge yes">passed, taken</span>'
    return (
        f'<div class="candidate" data-candidate="{candidate.name}"><h3>{candidate.name.capitalize()} candidate '
        f"{badge}</h3><p>α = min(α<sub>A</sub> {candidate.alpha_a:.4f}, α<sub>B</sub> {candidate.alpha_b:.4f}) = "
        f"<b>{candidate.alpha:.4f}</b>. {escape(verdict(candidate, gate))}</p>{_table(rows)}</div>"
    )


def _check(row: Check) -> str:
    side = "plus" if row.margin >= 0 else "minus"
    width = 100 * min(abs(row.relative), 1.0)  # a full bar is a change of 100% or more
    result = '<span class="ok">✓ passed</span>' if row.passed else '<span class="fail">✗ failed</span>'
    if not row.counts:
        result = "not asked"
    return (
        f'<tr class="{"" if row.counts else "not-asked"}"><td>{row.name}</td><td class="left">{row.where}</td>'
        f"<td>{significant(row.before)}</td><td>{significant(row.after)}</td><td>{row.margin:+.4g}</td>"
        f'<td class="margin" title="{row.relative:+.2%}"><div class="meter"><i class="{side}" '
        f'style="width:{width:.1f}%"></i>'
        f"</div></td><td>{result}</td></tr>"
    )
