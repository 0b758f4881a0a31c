"""A teacher for the network under training: another backbone, where it knows better.

A label is one noisy answer; the teacher answers every query row with probabilities that follow from the same support.
It is heard only on tables where it is ahead of the network, so that what it does not know is not unlearned.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from scff.pretrain.table_batch import UNSEEN, TableBatch

__all__ = ["lag"]


def lag(logits_BQK: Tensor, batch: TableBatch) -> Tensor:
    """How far the network is from the teacher on the tables where the teacher is ahead.

    Parameters
    ----------
    logits_BQK : Tensor
        Logits of the query rows.
    batch : TableBatch
        Tables, with what the teacher says of them.

    Returns
    -------
    Tensor
        Divergence from the teacher, the mean over all tables, those that lack nothing counting zero; a scalar.
    """
    assert batch.taught_BQK is not None
    log_p = logits_BQK.log_softmax(-1)
    behind_B = (_loss(batch.taught_BQK.clamp_min(1e-6).log(), batch) < _loss(log_p.detach(), batch)).float()
    divergence_B = F.kl_div(log_p, batch.taught_BQK, reduction="none").sum(-1).mean(1)
    return (behind_B * divergence_B).mean()


def _loss(log_p_BQK: Tensor, batch: TableBatch) -> Tensor:
    """Mean loss on each table."""
    y_BQ = batch.y_query_BQ
    loss_BQ = F.nll_loss(log_p_BQK.transpose(1, 2), y_BQ, ignore_index=UNSEEN, reduction="none")
    return loss_BQ.sum(1) / (y_BQ != UNSEEN).sum(1).clamp_min(1)
