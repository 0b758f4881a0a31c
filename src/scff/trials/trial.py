"""A trial: a question put to held-back labelled rows, and the verdict.

A feature encoder may read the labels of support rows (TabICLv2, TabPFN-3 and nano do). Their messages then know the
answer whatever the columns say. Rows that come in as queries carry no label: what the model predicts for them is what
it will do for new rows. Everything that reads labels, the plan included, is made anew from the rows of each split.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from scff.fold.algorithm import Folded
from scff.fold.methods import compile_view
from scff.fold.ray import RETRIES, connect, resources, result_of, unpacked
from scff.progress import Steps
from scff.trials.case import Case
from scff.trials.coded import WORDS, Coded
from scff.trials.episode import Episode
from scff.trials.mixture import Mixture, fit_mixture, losses_of
from scff.trials.narrow import Direct, Frequencies
from scff.trials.presentations import Answering, Presentation

__all__ = ["Tried", "Verdict", "ask", "judge", "size_of"]

logger = logging.getLogger(__name__)

FloatArray = npt.NDArray[np.float64]
IntArray = npt.NDArray[np.int64]

_CHEAP = 20  # what needs no pass of the model, beside one


@dataclass(frozen=True)
class Tried:
    """One alternative and how held-back rows were predicted with it.

    Attributes
    ----------
    name : str
    words : str
        What the model read.
    share : float
        Share of the Tail's step.
    loss : float
        Mean negative log-likelihood of the held-back rows.
    weight : float
        Its weight in the verdict's mixture.
    """

    name: str
    words: str
    share: float
    loss: float
    weight: float = 0.0


@dataclass(frozen=True)
class Verdict:
    """The answer of held-back rows.

    Attributes
    ----------
    tried : tuple of Tried
        The paper's Core first.
    n_rows, n_splits : int
        Held-back rows that answered, and the splits they stood in.
    loss : float
        Mean loss of the mixture, its weights fitted without the rows it is judged on.
    gain, error : float
        How much lower than the paper's Core that is, and the standard error.
    temperature : float
        Of the mixture.
    approved : bool
        Whether anything but the paper's Core is read.
    reason : str
        One sentence.
    about : {"reading", "backbone"}
        What was asked.
    """

    tried: tuple[Tried, ...] = ()
    n_rows: int = 0
    n_splits: int = 0
    loss: float = float("nan")
    gain: float = 0.0
    error: float = 0.0
    temperature: float = 1.0
    approved: bool = False
    reason: str = "nothing was tried"
    about: Literal["reading", "backbone"] = "reading"


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
        Probabilities of all held-back rows by name and share of the Tail's step.
    """
    if episode.case.settings.engine == "ray":
        return _ask_a_cluster(episode, alternatives, steps)
    steps = steps or Steps("", shown=False)
    held: dict[tuple[str, float], list[FloatArray]] = {}
    n_classes = int(episode.case.y.max()) + 1
    asked = [*zip(episode.cases, episode.splits, strict=True)]
    asked = asked if only is None else [asked[only]]
    for alternative in alternatives:
        for case, split in steps.over(asked, size_of(episode.case, alternative)):
            seen = np.unique(episode.case.y[split.fitted])
            if isinstance(alternative, Answering):
                proba, _ = alternative.answer(case)
                assert proba is not None
                held.setdefault((alternative.name, 1.0), []).append(_all_classes(proba, seen, n_classes))
                continue
            shown = alternative.show(case)
            if shown is None:
                break
            assert shown.held_back is not None
            view = shown.views.view(0)
            runtime = case.runtime(view, shown.plan, shown.method)
            compiled = compile_view(view, shown.plan, case.y, runtime, rule=shown.rule, narrow=shown.narrow)
            if len(alternative.shares) == 1:
                logits = {1.0: compiled.predict(shown.held_back)}
            elif isinstance(compiled, Folded) and compiled.gate.accepted is not None:
                messages = compiled.messages(shown.held_back)
                logits = {share: compiled.at(share).predict_from(messages) for share in alternative.shares}
            else:
                break  # these rows let no Tail in
            for share, logits_NK in logits.items():
                proba = case.backbone.combine([logits_NK.float().cpu().numpy()])
                held.setdefault((alternative.name, share), []).append(_all_classes(proba, seen, n_classes))
    return {key: np.concatenate(parts) for key, parts in held.items() if len(parts) == len(asked)}


def size_of(case: Case, alternative: Presentation | Answering) -> float:
    """What asking one split takes, in multiplications; what needs no pass of the model is a small part of one."""
    if isinstance(alternative, Coded):
        return WORDS * case.cost_of_a_pass
    return case.cost_of_a_pass / (_CHEAP if isinstance(alternative, Answering) else 1)


def _ask_a_cluster(
    episode: Episode, alternatives: Sequence[Presentation | Answering], steps: Steps | None
) -> dict[tuple[str, float], FloatArray]:
    """The same with a task for each split; rows and weights are put once into the object store."""
    if not episode.splits:
        return {}
    ray = connect()
    case = replace(episode.case, settings=replace(episode.case.settings, engine="local"))
    shared = [ray.put((replace(episode, case=case), list(alternatives)))]
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


def judge(
    held: dict[tuple[str, float], FloatArray], episode: Episode, asked: Sequence[Presentation | Answering]
) -> Verdict:
    """The verdict on held-back probabilities by name and share, the first being the one to beat."""
    alternatives = {alternative.name: alternative for alternative in asked}
    words = {name: alternative.words(episode.case) for name, alternative in alternatives.items()}
    y = np.concatenate([episode.case.y[split.new] for split in episode.splits]) if episode.splits else np.empty(0, int)
    names = list(held)
    losses = {key: losses_of(proba, y) for key, proba in held.items()}
    tried = tuple(Tried(name, words[name], share, float(losses[name, share].mean())) for name, share in names)
    if len(names) < 2:
        return Verdict(tried, len(y), len(episode.splits), reason="there was nothing to compare with the paper's Core")
    proba_PNK = np.stack([held[key] for key in names])
    fold_of = np.repeat(np.arange(len(episode.splits)), [len(split.new) for split in episode.splits])
    # Several steps of one Tail are one alternative.
    prior_P = np.array([alternatives[name].prior / sum(other == name for other, _ in names) for name, _ in names])
    passes_P = np.array([not isinstance(alternatives[name], Direct | Frequencies) for name, _ in names])
    mixed_N = np.empty(len(y))
    for fold in np.unique(fold_of):  # judged on rows its weights have not seen
        out = fold_of == fold
        mixture = fit_mixture(proba_PNK[:, ~out], y[~out], prior_P, passes_P)
        mixed_N[out] = losses_of(mixture(proba_PNK[:, out]), y[out])
    gains = losses[names[0]] - mixed_N
    gain, error = float(gains.mean()), float(gains.std() / np.sqrt(len(y)))
    mixture = fit_mixture(proba_PNK, y, prior_P, passes_P)
    alone = Mixture((1.0,) + (0.0,) * (len(names) - 1))
    # Weights drawn together cost at most the logarithm of (n + 8) / n, and where few rows praise the Core alone that is
    # luck more often than not: asking for a lower loss as well was worse on ten of eleven splits (docs/beyond.rst).
    approved = mixture.weights_P != alone.weights_P
    reason = f"the mixture lowers the loss on held-back rows by {gain:.3f} (standard error {error:.3f})"
    if not approved:
        reason = "held-back rows leave weight to nothing else"
        mixture = alone
    elif gain <= 0:
        reason = (
            f"several readings share the answer although the loss on held-back rows is {-gain:.3f} higher so (standard "
            f"error {error:.3f}): so few rows can be lucky with one of them"
        )
    tried = tuple(
        Tried(one.name, one.words, one.share, one.loss, weight)
        for one, weight in zip(tried, mixture.weights_P, strict=True)
    )
    return Verdict(
        tried, len(y), len(episode.splits), float(mixed_N.mean()), gain, error, mixture.temperature, approved, reason
    )


def _all_classes(proba_Nk: FloatArray, seen: IntArray, n_classes: int) -> FloatArray:
    """Probabilities of all classes from those of the classes that were fitted."""
    out = np.zeros((len(proba_Nk), n_classes))
    out[:, seen] = proba_Nk
    return out
