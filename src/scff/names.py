"""What can be asked for by name, each list once; free of imports, so that ``scff --help`` need not wait for torch."""

from numbers import Integral
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
    "is_whole",
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


def is_whole(value: object) -> bool:
    """Whether something is a whole number, Python's or NumPy's; a truth value in its place is a slip."""
    return isinstance(value, Integral) and not isinstance(value, bool)
