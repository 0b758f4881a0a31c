"""What was read: the alternatives that were tried, what held-back rows said about them, and what the answer mixes."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from scff.report.marks import badge, meter, signed

if TYPE_CHECKING:
    from scff.estimators.fitted import Fitted
    from scff.trials.trial import Tried, Verdict

__all__ = ["answer", "mixed", "read", "sentence", "sureness"]

_STEPS = {0.5: "half", 0.25: "a quarter"}
_UNCHANGED = 0.02  # a temperature this near to 1 moves no probability that anybody would notice


def mixed(fitted: Fitted) -> list[tuple[float, str]]:
    """Weight and words of everything the answer is read from, heaviest first."""
    tried = {(one.name, one.share): _words(one) for verdict in fitted.verdicts for one in verdict.tried}
    return [
        (
            choice.weight,
            tried.get((choice.presentation.name, choice.share))
            or choice.presentation.words(fitted.compiled()[0]),  # nothing was tried
        )
        for choice in fitted.choices
    ]


def sentence(verdict: Verdict) -> str:
    """A verdict as one sentence."""
    if not verdict.approved:
        return f"The paper's Core is read alone: {verdict.reason}."
    compared = ", compared with the paper's Core as it is" if verdict.gain is not None else ""
    return f"{verdict.reason[:1].upper()}{verdict.reason[1:]}{compared}."


def sureness(temperature: float) -> str:
    """A temperature as one sentence; empty for one that changes nothing to speak of."""
    if abs(temperature - 1.0) < _UNCHANGED:
        return ""
    if temperature > 1.0:
        return f"Its sureness was turned down: probabilities are nearer to each other (temperature {temperature:.2f})."
    return f"Its sureness was turned up: probabilities are further apart (temperature {temperature:.2f})."


def read(fitted: Fitted) -> str:
    """What was read?"""
    parts = []
    for verdict in fitted.verdicts:
        if verdict.about == "backbone":
            parts.append(_backbones(verdict))
            continue
        mark = badge("approved" if verdict.approved else "not approved", verdict.approved) if verdict.n_rows else ""
        why = f'<span data-value="verdict">{escape(sentence(verdict))}</span> {sureness(fitted.temperature)}'
        parts.append(f'<p class="say">{answer(fitted)}</p><p>{mark} {why}</p>')
        if verdict.n_rows:
            parts.append(_table(verdict) + _how(verdict, fitted.classes is not None))
    return "".join(parts)


def _backbones(verdict: Verdict) -> str:
    """Which backbone, and how the others did on the same held-back rows."""
    losses = ", ".join(f"{escape(one.name)} <b>{one.loss:.3f}</b>" for one in verdict.tried)
    # It may begin with a name, which is written as it is.
    return f'<p><span data-value="backbones">{escape(verdict.reason)}.</span> Held-back loss: {losses}.</p>'


def answer(fitted: Fitted) -> str:
    """What the answer is read from, in a sentence."""
    shares = mixed(fitted)
    heaviest, first = shares[0][0], f"<b>{escape(shares[0][1])}</b>"
    if len(shares) == 1:
        return f"One reading of the table gives the answer: {first}."
    return f"The answer mixes {len(shares)} readings of the table; the heaviest ({heaviest:.0%}): {first}."


def _words(one: Tried) -> str:
    if one.share == 1.0:
        return one.words
    return f"{one.words}, at {_STEPS.get(one.share, f'{one.share:g}')} of the gate's step"


def _core(verdict: Verdict) -> float | None:
    """The loss of the paper's Core; None where it was not asked."""
    return verdict.tried[0].loss if verdict.gain is not None else None


def _table(verdict: Verdict) -> str:
    core = _core(verdict)
    furthest = max([abs(core - one.loss) for one in verdict.tried if core is not None] + [1e-12])
    rows = []
    for number, one in enumerate(verdict.tried):
        compared = ""
        if core is not None:
            change, bar = (signed(one.loss - core), meter((core - one.loss) / furthest)) if number else ("", "")
            compared = (
                f'<td data-label="Against the Core">{change}</td><td class="margin" aria-hidden="true">{bar}</td>'
            )
        weight = f"{one.weight:.0%}" if one.weight > 0 else "–"
        rows.append(
            f'<tr class="{"" if one.weight > 0 else "not-asked"}" data-tried="{escape(one.name)}">'
            f'<td data-label="What the model read">{escape(_words(one))}</td>'
            f'<td data-label="Held-back loss">{one.loss:.3f}</td>{compared}'
            f'<td data-label="Weight in the answer"><b>{weight}</b></td></tr>'
        )
    against = '<th scope="col">Against the Core</th><th scope="col" class="left">Worse | better</th>'
    return (
        '<table class="tried"><thead><tr><th scope="col">What the model read</th><th scope="col">Held-back loss</th>'
        f"{against if core is not None else ''}"
        f'<th scope="col">Weight in the answer</th></tr></thead><tbody>{"".join(rows)}</tbody></table>'
    )


def _how(verdict: Verdict, classified: bool) -> str:
    what = (
        "mean negative log-likelihood of their true classes"
        if classified
        else "mean squared error, in units of the variance of their true numbers"
    )
    loss = ""
    if verdict.approved:
        loss = (
            f" Put together, with weights fitted without the rows they are judged on, the loss is "
            f'<b data-value="mixture-loss">{verdict.loss:.3f}</b>.'
        )
    parts = "halves" if verdict.n_splits == 2 else f"{verdict.n_splits} parts"
    return (
        f'<p class="muted small">The trial: {verdict.n_rows:,} labelled rows were dealt into {parts}, and each was '
        f"predicted from the others as if it were new. The loss is the {what}, lower is better.{loss} Weights are "
        "drawn together as if by four more rows; what earns none costs nothing when predicting.</p>"
    )
