"""A tutor for the network under training: logistic regression, where it knows better.

To regress on many correlated columns is what a context learns last, for labels say little about it: each is one noisy
answer. The tutor answers every query row with a probability that follows from the support alone. It is heard only on
tables where it is ahead of the network, so that what it cannot know (bends, interactions) is not unlearned.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import LogisticRegression
from threadpoolctl import threadpool_limits
from torch import Tensor

from scff.pretrain.table_batch import MAX_CLASSES, UNSEEN, TableBatch

__all__ = ["Lesson", "lag", "teach"]

#: Inverse penalties the tutor may use; ascending, so that each fit starts where the last one ended.
_STRENGTHS = (0.003, 0.03, 0.3, 3.0)


@dataclass(frozen=True)
class Lesson:
    """The tutor's answers to a batch.

    Parameters
    ----------
    p_BQK : Tensor
        Probabilities of the query rows.
    loss_B : Tensor
        Its loss on each table.
    """

    p_BQK: Tensor
    loss_B: Tensor


def teach(batch: TableBatch) -> Lesson:
    """Fit the tutor to every support of a batch.

    Its penalty is the one that does best on the query rows: a tutor may look.

    Parameters
    ----------
    batch : TableBatch
        Tables.

    Returns
    -------
    Lesson
        What the tutor would answer.
    """
    answers = [
        _answer(*arrays, batch.n_support) for arrays in zip(batch.x_BTD.numpy(), batch.y_BT.numpy(), strict=True)
    ]
    return Lesson(torch.stack([p for p, _ in answers]), torch.tensor([loss for _, loss in answers]))


def _answer(x_TD: np.ndarray, y_T: np.ndarray, n_support: int) -> tuple[Tensor, float]:
    """Probabilities and loss of the best penalty on one table."""
    asked = y_T[n_support:] != UNSEEN
    model = LogisticRegression(solver="newton-cholesky", max_iter=12, warm_start=True)
    best, best_loss = torch.zeros(len(asked), MAX_CLASSES), float("inf")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for strength in _STRENGTHS:
            model.set_params(C=strength).fit(x_TD[:n_support].astype(np.float64), y_T[:n_support])
            p = torch.from_numpy(model.predict_proba(x_TD[n_support:])).float().clamp_min(1e-6)
            p = F.pad(p / p.sum(1, keepdim=True), (0, MAX_CLASSES - p.shape[1]))
            loss = -float(p[asked].gather(1, torch.from_numpy(y_T[n_support:][asked])[:, None]).log().mean())
            if loss < best_loss:
                best, best_loss = p, loss
    return best, best_loss


def lag(logits_BQK: Tensor, batch: TableBatch, lesson: Lesson) -> Tensor:
    """How far the network is from the tutor on the tables where the tutor is ahead.

    Parameters
    ----------
    logits_BQK : Tensor
        Logits of the query rows.
    batch : TableBatch
        Tables.
    lesson : Lesson
        The tutor's answers.

    Returns
    -------
    Tensor
        Divergence from the tutor, the mean over all tables, those that lack nothing counting zero; a scalar.
    """
    log_p = logits_BQK.log_softmax(-1)
    own_BQ = F.cross_entropy(logits_BQK.transpose(1, 2), batch.y_query_BQ, ignore_index=UNSEEN, reduction="none")
    own_B = own_BQ.detach().sum(1) / (batch.y_query_BQ != UNSEEN).sum(1)
    behind_B = (lesson.loss_B < own_B).float()
    divergence_B = F.kl_div(log_p, lesson.p_BQK, reduction="none").sum(-1).mean(1)
    return (behind_B * divergence_B).mean()
