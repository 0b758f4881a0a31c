"""The estimator a command asks for: a classifier, or a regressor where the target is of numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from scff.errors import DataError
from scff.names import TRIALS

if TYPE_CHECKING:
    from scff.estimators.classifier import FoldedClassifier
    from scff.estimators.regressor import FoldedRegressor
    from scff.tables.task import Task

__all__ = ["estimator_for"]

# What only classes have, and how it stands where nobody said anything.
_OF_CLASSES = {"routing": "anova", "tail": "paper", "trials": "auto", "class_weight": "none"}


def estimator_for(
    task: Task, *, method: str, of_classes: dict[str, str], **shared: Any
) -> FoldedClassifier | FoldedRegressor:
    """An estimator, not yet fitted.

    Parameters
    ----------
    task : Task
        What the target is.
    method : str
        ``"auto"`` is the paper's method for numbers, where nothing else is known yet.
    of_classes : dict of str to str
        Options that a regressor does not have, as the command line spells them.
    **shared
        Options that both have.

    Raises
    ------
    DataError
        If the target is of numbers and an option of classes was given.
    """
    if task.name == "number":
        for name, value in of_classes.items():
            if value != _OF_CLASSES[name]:
                option = name.replace("_", "-")
                raise DataError(f"--{option} is a matter of classes and the target is of numbers; leave it out.")
        from scff.estimators.regressor import FoldedRegressor  # torch, once all that can be refused was looked at

        return FoldedRegressor(method="scff" if method == "auto" else method, **shared)  # type: ignore[arg-type]
    from scff.estimators.classifier import FoldedClassifier

    options: dict[str, Any] = dict(of_classes)
    if "trials" in options:  # the estimator refuses a name that stands for nothing
        options["trials"] = {str(known): known for known in TRIALS}.get(options["trials"], options["trials"])
    if options.get("class_weight") == "none":
        options["class_weight"] = None
    return FoldedClassifier(method=method, **options, **shared)  # type: ignore[arg-type]
