"""How the embedded checkpoint ``nano`` is made: prior, model, optimiser, schedule and the run itself.

Nothing here is needed to use ``scff``; the package ships the result. ``scff pretrain`` makes it again.
"""
