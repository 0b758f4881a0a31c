"""What can be asked for by name, each list once; free of imports, so that ``scff --help`` need not wait for torch."""

from typing import Literal, get_args

__all__ = [
    "ENGINES",
    "METHODS",
    "ROUTINGS",
    "TAILS",
    "TRIALS",
    "EngineName",
    "Method",
    "MethodOrAuto",
    "RankRouting",
    "Trials",
]

Method = Literal["scff", "native", "raw-core", "bounded-core", "mass-huber"]
"""The methods of the paper."""

MethodOrAuto = Literal["auto", Method]
"""The same and ``"auto"``, which chooses between presentations."""

RankRouting = Literal["anova", "random"]
"""How a classifier's columns are ranked: as in the paper, or by its control."""

EngineName = Literal["local", "ray"]
Trials = Literal["auto", "thorough", 0]

METHODS: tuple[Method, ...] = get_args(Method)
ROUTINGS: tuple[RankRouting, ...] = get_args(RankRouting)
ENGINES: tuple[EngineName, ...] = get_args(EngineName)
TRIALS: tuple[Trials, ...] = get_args(Trials)
TAILS = (
    "off",
    "paper",
    "centred",
    "raw-residual",
    "fixed-prototype",
    "fisher",
    "no-single-leaf-fallback",
    "no-binary-restriction",
)
"""What may let the Tail in: nothing, the paper's gate, its component controls."""
