"""Muon in float32, for the matrices of the backbone.

``torch.optim.Muon`` runs its iteration in bfloat16, which CPUs without bfloat16 units emulate slowly.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch
from torch import Tensor, nn

#: Coefficients of the quintic Newton-Schulz iteration (Jordan et al., 2024).
_QUINTIC = (3.4445, -4.7750, 2.0315)


def orthogonalise(u: Tensor, steps: int = 5) -> Tensor:
    """Push the singular values of a matrix towards one.

    Parameters
    ----------
    u : Tensor
        A matrix.
    steps : int
        Iterations.

    Returns
    -------
    Tensor
        Approximately ``U V'`` of the singular value decomposition of ``u``.

    Examples
    --------
    >>> q = orthogonalise(torch.diag(torch.tensor([3.0, 1.0])))
    >>> bool(((q.diag() > 0.6) & (q.diag() < 1.3)).all())
    True
    """
    tall = u.shape[0] > u.shape[1]
    x: Tensor = u.T if tall else u
    x = x / (x.norm() + 1e-7)
    a, b, c = _QUINTIC
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


class Muon(torch.optim.Optimizer):
    """Momentum, orthogonalised, with decoupled weight decay.

    Parameters
    ----------
    params : iterable of Parameter
        Matrices only.
    lr : float
        Learning rate; updates are scaled to the size AdamW's would have, so both can share it.
    momentum : float
        Nesterov momentum.
    weight_decay : float
        Decoupled weight decay.
    """

    def __init__(
        self,
        params: Iterable[nn.Parameter],
        lr: float = 1e-3,
        momentum: float = 0.95,
        weight_decay: float = 0.01,
    ) -> None:
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Take one step; a closure is not supported."""
        if closure is not None:
            raise NotImplementedError("Muon takes no closure")
        for group in self.param_groups:
            lr, momentum = group["lr"], group["momentum"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if "momentum" not in state:
                    state["momentum"] = torch.zeros_like(p)
                buffer: Tensor = state["momentum"]
                buffer.lerp_(p.grad, 1 - momentum)
                update = orthogonalise(p.grad.lerp(buffer, momentum))
                p.mul_(1 - lr * group["weight_decay"])
                # 0.2 sqrt(max dim) matches the root mean square of an AdamW update.
                p.add_(update, alpha=-lr * 0.2 * max(p.shape) ** 0.5)


def split_parameters(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """Divide the parameters between Muon and AdamW.

    Parameters
    ----------
    model : Module
        A TabICL network.

    Returns
    -------
    matrices, rest : list of Parameter
        Hidden matrices for Muon; vectors, embeddings, scalable-softmax networks and the head for AdamW.
    """
    outer = ("cls_tokens", "ind_vectors", "y_encoder", "decoder", "in_linear", "ssmax")
    matrices: list[nn.Parameter] = []
    rest: list[nn.Parameter] = []
    for name, p in model.named_parameters():
        hidden = p.ndim == 2 and not any(part in name for part in outer)
        (matrices if hidden else rest).append(p)
    return matrices, rest
