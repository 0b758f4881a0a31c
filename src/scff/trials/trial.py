"""The verdict: what held-back rows say of the alternatives they were asked with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from scff.trials.average import Average, errors_of, fit_average
from scff.trials.episode import Episode
from scff.trials.mixture import Mixture, fit_mixture, losses_of
from scff.trials.narrow import Direct, Frequencies
from scff.trials.presentations import Answering, Presentation
from scff.trials.tallies import Tallies

__all__ = ["Tried", "Verdict", "judge"]

FloatArray = npt.NDArray[np.float64]


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
        The paper's Core first, where it was asked.
    n_rows, n_splits : int
        Held-back rows that answered, and the splits they stood in.
    loss : float
        Mean loss of the mixture, its weights fitted without the rows it is judged on.
    gain, error : float or None
        How much lower than the paper's Core that is, and the standard error; None where the Core was not asked.
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
    gain: float | None = 0.0
    error: float | None = 0.0
    temperature: float = 1.0
    approved: bool = False
    reason: str = "nothing was tried"
    about: Literal["reading", "backbone"] = "reading"


def judge(
    held: dict[tuple[str, float], FloatArray], episode: Episode, asked: Sequence[Presentation | Answering]
) -> Verdict:
    """The verdict on held-back probabilities by name and share; the paper's Core comes first where it was asked."""
    alternatives = {alternative.name: alternative for alternative in asked}
    words = {name: alternative.words(episode.case) for name, alternative in alternatives.items()}
    y = np.concatenate([np.empty(0, episode.case.y.dtype), *(episode.case.y[split.new] for split in episode.splits)])
    names = list(held)
    classified = episode.case.classified
    loss, fit, alone_of = (losses_of, fit_mixture, Mixture) if classified else (errors_of, fit_average, Average)
    losses = {key: loss(said, y) for key, said in held.items()}
    tried = tuple(Tried(name, words[name], share, float(losses[name, share].mean())) for name, share in names)
    if len(names) < 2:
        return Verdict(tried, len(y), len(episode.splits), reason="there was nothing to compare with the paper's Core")
    said_PNK = np.stack([held[key] for key in names])
    fold_of = np.repeat(np.arange(len(episode.splits)), [len(split.new) for split in episode.splits])
    # Several steps of one Tail are one alternative.
    prior_P = np.array([alternatives[name].prior / sum(other == name for other, _ in names) for name, _ in names])
    passes_P = np.array([not isinstance(alternatives[name], Direct | Tallies | Frequencies) for name, _ in names])
    mixed_NK = np.empty(said_PNK.shape[1:])
    for fold in np.unique(fold_of):  # judged on rows its weights have not seen
        out = fold_of == fold
        mixture = fit(said_PNK[:, ~out], y[~out], prior_P, passes_P)
        mixed_NK[out] = mixture(said_PNK[:, out])
    mixture, mixed_N = fit(said_PNK, y, prior_P, passes_P), loss(mixed_NK, y)
    gain, error, approved = None, None, True
    reason = (
        f"the mixture's loss on held-back rows is {mixed_N.mean():.3f}; the paper's Core, "
        f"{len(episode.case.plan.core):,} columns, would have cost more to ask than the answer"
    )
    if names[0][0] == "core":
        gains = losses[names[0]] - mixed_N
        gain, error = float(gains.mean()), float(gains.std() / np.sqrt(len(y)))
        alone = alone_of((1.0,) + (0.0,) * (len(names) - 1))
        # Weights drawn together cost the mean of probabilities at most the logarithm of (n + 4) / n, and where few rows
        # praise the Core alone, that is luck more often than not: asking for a lower loss too was worse on ten of
        # eleven splits (docs/beyond.rst).
        approved = mixture.weights_P != alone.weights_P
        reason = f"the mixture lowers the loss on held-back rows by {gain:.3f} (standard error {error:.3f})"
        if not approved:
            reason = "held-back rows leave weight to nothing else"
            mixture = alone
        elif gain <= 0:
            reason = (
                f"several readings share the answer although the loss on held-back rows is {-gain:.3f} higher so "
                f"(standard error {error:.3f}): so few rows can be lucky with one of them"
            )
    tried = tuple(
        Tried(one.name, one.words, one.share, one.loss, weight)
        for one, weight in zip(tried, mixture.weights_P, strict=True)
    )
    return Verdict(
        tried, len(y), len(episode.splits), float(mixed_N.mean()), gain, error, mixture.temperature, approved, reason
    )
