"""The backbones written here, as facts: what they are, where their weights are, the address of what loads them.

Nothing here imports a model, so a list of them is there at once.
"""

from scff.backbones.known import others, tabicl, tabpfn

__all__ = ["SPECS"]

SPECS = (*tabicl.SPECS, *tabpfn.SPECS, *others.SPECS)
