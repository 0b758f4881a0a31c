"""The estimator a command asks for: a classifier, or a regressor where the target is of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scff.cli.console import import_torch
from scff.errors import DataError
from scff.names import TRIALS

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor
    from scff.tables.task import Task

__all__ = ["estimator_for"]

# What only classes have, and how it stands where nobody said anything.
_OF_CLASSES = {"routing": "anova", "tail": "paper", "class_weight": "none"}


def estimator_for(
    task: Task, *, method: str, of_classes: dict[str, str], trials: str = "auto", **shared: Any
) -> FoldedClassifier | FoldedRegressor:
    """An estimator, not yet fitted.

    Parameters
    ----------
    task : Task
        What the target is.
    method : str
    of_classes : dict of str to str
        Options that a regressor does not have, as the command line spells them.
    trials : str
        As the command line spells it; the estimator refuses a name that stands for nothing.
    **shared
        Options that both have.

    Raises
    ------
    DataError
        If the target is of numbers and an option of classes was given.
    """
    shared |= {"method": method, "trials": {str(known): known for known in TRIALS}.get(trials, trials)}
    if task.name == "number":
        for name, value in of_classes.items():
            if value != _OF_CLASSES[name]:
                option = name.replace("_", "-")
                raise DataError(f"--{option} is a matter of classes and the target is of numbers; leave it out.")
        import_torch()  # once all that can be refused was looked at
        from scff.estimators.regressor import FoldedRegressor

        return FoldedRegressor(**shared)
    import_torch()
    from scff.estimators.classifier import FoldedClassifier

    options: dict[str, Any] = dict(of_classes)
    if options.get("class_weight") == "none":
        options["class_weight"] = None
    return FoldedClassifier(**options, **shared)
