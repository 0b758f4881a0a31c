"""A fitted model as a file that runs no code, and back.

One zip: ``model.json`` says what was decided, ``support.arrow`` holds the labelled rows, ``arrays.safetensors`` the
arrays of both, and ``caches.safetensors``, where they were asked for, what the support taught the backbone. Weights are
never inside; they are named by their digest.
"""

from __future__ import annotations

import json
import os
import platform
from importlib.metadata import PackageNotFoundError, version
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scff import __version__
from scff.errors import DataError, ModelFileError
from scff.estimators.base import FoldedEstimator
from scff.estimators.classifier import FoldedClassifier
from scff.estimators.parameters import check_parameters
from scff.estimators.regressor import FoldedRegressor
from scff.models.archive import CACHES, DOCUMENT, SUPPORT, TENSORS, Archive, write_archive
from scff.models.caches import describe_caches, read_caches
from scff.models.limits import BRACKETS, JSON_BYTES
from scff.models.record import decode_fitted, decode_parameter, encode_fitted, encode_parameter
from scff.models.support import describe_table, read_table, write_table
from scff.models.tensors import Misfit, Stored, parse_json, read_tensors, write_tensors
from scff.models.values import decode_array, encode_array
from scff.tables.atomic import write_atomically

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import IO

__all__ = ["load", "save"]

FORMAT = "scff-model-2"
"""Written into every file; another one is refused."""

_ESTIMATORS: dict[str, type[FoldedEstimator]] = {"classifier": FoldedClassifier, "regressor": FoldedRegressor}
_FIELDS = {"format", "versions", "estimator", "parameters", "named", "table", "classes", "fitted", "caches"}


def save(model: FoldedEstimator, path: str | PathLike[str], *, caches: bool = False) -> None:
    """Write a fitted model, the whole file or none; `FoldedClassifier.save` is the same.

    Parameters
    ----------
    model : FoldedClassifier or FoldedRegressor
        Fitted.
    path : path
        The file to write; a new one is its owner's alone, for it holds the labelled rows.
    caches : bool, default=False
        Whether to write what the support taught the backbone as well.

    Raises
    ------
    ModelFileError
        If the table or the labels are of a type that a file does not hold; the message says which.
    DataError
        If parameters were set since `fit` that no model can have.
    """
    path, fitted = _path(path), model._record()
    check_parameters(model)  # they may have been set since `fit`; a file that nobody can read is no model
    try:
        record, arrays = encode_fitted(fitted)
        document = {
            "format": FORMAT,
            "versions": _versions(),
            "estimator": next(name for name, kind in _ESTIMATORS.items() if type(model) is kind),
            "parameters": {name: encode_parameter(name, value) for name, value in model.get_params(deep=False).items()},
            "named": hasattr(model, "feature_names_in_"),
            "table": describe_table(fitted.support),
            "classes": None if fitted.classes is None else encode_array(fitted.classes),
            "fitted": record,
            "caches": None,
        }
    except (TypeError, StopIteration) as error:
        raise ModelFileError(
            f"This model cannot be written to a file ({error or type(model).__name__}); convert such values to text or "
            "numbers before `fit`, or pickle the model for your own use."
        ) from error
    tensors: dict[str, Stored] = {}
    if caches:
        document["caches"], tensors = describe_caches(fitted)
    text = json.dumps(document, separators=(",", ":"), allow_nan=False).encode()
    members: dict[str, Callable[[IO[bytes]], object]] = {
        DOCUMENT: lambda out: out.write(text),
        SUPPORT: lambda out: write_table(out, fitted.support),
        TENSORS: lambda out: write_tensors(out, arrays),
    }
    if caches:
        members[CACHES] = lambda out: write_tensors(out, tensors)
    write_atomically(path, lambda temporary: write_archive(temporary, members), private=True)


def load(path: str | PathLike[str]) -> FoldedClassifier | FoldedRegressor:
    """Read a model that `save` or ``scff fit`` wrote. Nothing in the file is executed.

    Weights are looked for when the model first predicts: the file names them and their digest.

    Parameters
    ----------
    path : path

    Returns
    -------
    FoldedClassifier or FoldedRegressor
        Fitted; its predictions are those of the model that was saved, bit for bit on the same machine.

    Raises
    ------
    ModelFileError
        If the file is missing, damaged, of another version or something else; the message says which.

    Examples
    --------
    >>> import tempfile
    >>> import numpy as np
    >>> import scff
    >>> X, y = np.random.default_rng(0).normal(size=(20, 4)), np.repeat(["ill", "well"], 10)
    >>> clf = scff.FoldedClassifier("nano", method="raw-core").fit(X, y)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     clf.save(f"{folder}/model.scff")
    ...     again = scff.load(f"{folder}/model.scff")
    >>> bool((again.predict_proba(X) == clf.predict_proba(X)).all())
    True
    """
    path = _path(path)
    archive = Archive.open(path)
    try:
        return _build(archive, parse_json(bytes(archive.content[DOCUMENT]), JSON_BYTES, BRACKETS))
    except (Misfit, RecursionError) as error:
        raise ModelFileError(
            f"{path} is damaged, or was changed since it was written ({error}); fit it again."
        ) from error
    except DataError as error:
        raise ModelFileError(f"{path} holds parameters that no model has ({error}); fit it again.") from error


def _path(path: Any) -> Path:
    if not isinstance(path, str | PathLike) or not isinstance(os.fspath(path), str):
        raise ModelFileError(f"A model is a file, and {type(path).__name__} is not the path of one; give its name.")
    return Path(path)


def _build(archive: Archive, document: Any) -> FoldedClassifier | FoldedRegressor:
    written = document.get("format") if isinstance(document, dict) else None
    if isinstance(written, str) and written != FORMAT:
        raise ModelFileError(
            f"{archive.path} is in the format {written[:40]!r}, and this version of scff reads {FORMAT!r}; read it "
            "with the version that wrote it, or fit it again."
        )
    if written is None or set(document) != _FIELDS:
        raise Misfit("model.json has not the fields of a model")
    kind = _ESTIMATORS.get(document["estimator"]) if isinstance(document["estimator"], str) else None
    if kind is None:
        raise Misfit("estimator is not one of this library's")
    support = read_table(archive.content[SUPPORT], document["table"])
    classes = None if document["classes"] is None else decode_array(document["classes"])
    if (classes is None) != (kind is FoldedRegressor):
        raise Misfit("classes are those of another kind of model")
    arrays = read_tensors(archive.content[TENSORS])
    fitted = decode_fitted(document["fitted"], arrays, support, classes)
    if (document["caches"] is None) != (CACHES not in archive.content):
        raise Misfit("caches are announced and missing, or there and not announced")
    if document["caches"] is not None:
        read_caches(document["caches"], read_tensors(archive.content[CACHES]), fitted)
        if document["versions"] != _versions():  # what others computed is not mixed with what these compute
            fitted._kept, fitted._recalled = (), {}
    fitted.found_in(archive.path.parent)
    model: Any = kind(**_parameters(kind, document["parameters"]))
    check_parameters(model)
    model.n_features_in_ = support.n_columns
    if document["named"] is True and support.names is not None:
        model.feature_names_in_ = np.array(support.names, dtype=object)
    elif document["named"] is not False:
        raise Misfit("named does not say whether columns have names")
    model.fitted_ = fitted
    return model  # type: ignore[no-any-return]


def _parameters(kind: type[FoldedEstimator], data: Any) -> dict[str, Any]:
    """Constructor arguments; one that is not there is a later version's and has its default."""
    known = kind().get_params(deep=False)
    if not isinstance(data, dict) or not set(data) <= set(known):
        raise Misfit("parameters are not those of the estimator")
    return {name: decode_parameter(name, value) for name, value in data.items()}


def _versions() -> dict[str, str]:
    """What wrote a file. Caches that other versions computed are dropped; the rest is read whatever wrote it."""
    found = {"scff": __version__, "python": platform.python_version()}
    for package in ("numpy", "pandas", "scikit-learn", "torch", "tabicl"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    return found
