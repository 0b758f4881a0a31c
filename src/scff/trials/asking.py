"""A trial: a question put to held-back labelled rows.

A feature encoder may read the labels of support rows (TabICLv2, TabPFN-3 and nano do). Their messages then know the
answer whatever the columns say. Rows that come in as queries carry no label: what the model predicts for them is what
it will do for new rows. Everything that reads labels, the plan included, is made anew from the rows of each split.

What the model is shown is prepared in one thread, and read side by side by several.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from scff.fold.algorithm import Folded
from scff.fold.methods import compile_view
from scff.fold.ray import RETRIES, connect, resources, result_of, share, unpacked
from scff.fold.threads import in_order
from scff.progress import Steps
from scff.trials.beside import reader_of
from scff.trials.case import Case
from scff.trials.coded import WORDS, Coded
from scff.trials.episode import Episode, Split
from scff.trials.presentations import Answering, Presentation, Shown

__all__ = ["ask", "size_of"]

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CHEAP = 20  # what needs no pass of the model, beside one


def ask(
    episode: Episode,
    alternatives: Sequence[Presentation | Answering],
    only: int | None = None,
    steps: Steps | None = None,
) -> dict[tuple[str, float], FloatArray]:
    """Ask held-back rows: what does the model say of them, by each presentation?

    Parameters
    ----------
    episode : Episode
    alternatives : sequence of Presentation or Answering
        One that has nothing to show on some split is not tried.
    only : int, optional
        One split instead of all.
    steps : Steps, optional
        Told of every alternative that a split was asked with, by its size (`size_of`).

    Returns
    -------
    dict
        Probabilities of all held-back rows, or their numbers in one column, by name and share of the Tail's step.
    """
    if episode.case.settings.engine == "ray":
        return _ask_a_cluster(episode, alternatives, steps)
    steps = steps or Steps("", shown=False)
    asked = [*zip(episode.cases, episode.splits, strict=True)]
    asked = asked if only is None else [asked[only]]
    passes = _shown_one_by_one(alternatives, asked)
    held: dict[tuple[str, float], list[FloatArray]] = {}
    n_classes = int(episode.case.y.max()) + 1 if episode.case.classified else 1
    with in_order(
        _answers, passes, episode.case.side_by_side, n=len(alternatives) * len(asked), first_alone=True
    ) as results:
        for one, seen, answers in results:
            for share, proba in answers.items():
                held.setdefault((one.name, share), []).append(_all_classes(proba, seen, n_classes))
            steps.done(size_of(episode.case, one))
    return {key: np.concatenate(parts) for key, parts in held.items() if len(parts) == len(asked)}


@dataclass(frozen=True, eq=False)
class _Pass:
    """One alternative on one split: answered where it needs no model, else prepared for it."""

    alternative: Presentation | Answering
    case: Case
    seen: IntArray
    shown: Shown | None = None
    view: Any = None
    known: FloatArray | None = None


def _shown_one_by_one(
    alternatives: Sequence[Presentation | Answering], asked: Sequence[tuple[Case, Split]]
) -> Iterator[_Pass]:
    """Every alternative on every split, until it has nothing to show; prepared in the thread that iterates."""
    for alternative in alternatives:
        for case, split in asked:
            assert case.origin is not None
            seen = np.unique(case.origin[0].y[split.fitted]) if case.classified else np.zeros(1, dtype=np.int64)
            if isinstance(alternative, Answering):
                known = alternative.answer(case)[0]
                if known is None:
                    break
                yield _Pass(alternative, case, seen, known=known)
                continue
            shown = alternative.show(case)
            if shown is None:
                break
            yield _Pass(alternative, reader_of(case, alternative), seen, shown, shown.views.view(0))


def _answers(one: _Pass) -> tuple[Presentation | Answering, IntArray, dict[float, FloatArray]]:
    """What a pass says of held-back rows, by share of the Tail's step; nothing where its rows let no Tail in."""
    alternative, case, shown = one.alternative, one.case, one.shown
    if isinstance(alternative, Answering):
        assert one.known is not None
        return alternative, one.seen, {1.0: one.known}
    assert shown is not None
    assert shown.held_back is not None
    runtime = case.runtime(one.view, shown.plan, shown.method)
    compiled = compile_view(one.view, shown.plan, case.y, runtime, rule=shown.rule, narrow=shown.narrow)
    if len(alternative.shares) == 1:
        logits = {1.0: compiled.predict(shown.held_back)}
    elif isinstance(compiled, Folded) and compiled.gate.accepted is not None:
        messages = compiled.messages(shown.held_back)
        logits = {share: compiled.at(share).predict_from(messages) for share in alternative.shares}
    else:
        logits = {}
    said = {share: case.backbone.combine([found.float().cpu().numpy()]) for share, found in logits.items()}
    return alternative, one.seen, said


def size_of(case: Case, alternative: Presentation | Answering) -> float:
    """What asking one split takes, in multiplications; what needs no pass of the model is a small part of one."""
    if isinstance(alternative, Coded):
        return WORDS * case.cost_of_a_pass
    return reader_of(case, alternative).cost_of_a_pass / (_CHEAP if isinstance(alternative, Answering) else 1)


def _ask_a_cluster(
    episode: Episode, alternatives: Sequence[Presentation | Answering], steps: Steps | None
) -> dict[tuple[str, float], FloatArray]:
    """The same with a task for each split; rows and weights are put once into the object store."""
    if not episode.splits:
        return {}
    ray = connect()
    case = replace(episode.case, settings=replace(episode.case.settings, engine="local"))
    shared = share(ray, (replace(episode, case=case), list(alternatives)))
    task = ray.remote(_ask_there).options(max_retries=RETRIES, **resources(case.settings.options.device))
    sent = [task.remote(shared, number) for number in range(len(episode.splits))]
    each = sum(size_of(case, one) for one in alternatives)
    first, *others = [result_of(ray, one) for one in (sent if steps is None else steps.over(sent, each))]
    whole = [key for key in first if all(key in other for other in others)]
    return {key: np.concatenate([first[key], *(other[key] for other in others)]) for key in whole}


def _ask_there(shared: list[Any], number: int) -> dict[tuple[str, float], FloatArray]:
    """On a worker: one split."""
    episode, alternatives = unpacked(shared)
    return ask(episode, alternatives, number)


def _all_classes(proba_Nk: FloatArray, seen: IntArray, n_classes: int) -> FloatArray:
    """Probabilities of all classes from those of the classes that were fitted."""
    out = np.zeros((len(proba_Nk), n_classes))
    out[:, seen] = proba_Nk
    return out
