"""How a bad input may end: refused in one sentence of our own, or answered as if it were good. Nothing else."""

from __future__ import annotations

import re
import warnings

from scff.errors import SCFFError


def sentence(text: str) -> None:
    """Assert that a message is one a user can act on: short, on one line, whole, without an object's address."""
    if text.startswith("The feature names should match"):  # scikit-learn's own words, which its checks ask for
        text = " ".join(text.split()) + "."
    assert text.strip(), "the message is empty"
    assert "\n" not in text.strip(), f"more than a line: {text!r}"
    assert len(text) < 600, f"{len(text)} characters: {text[:200]!r}"
    assert text.rstrip()[-1] in ".?)'\"!", f"no end: {text!r}"
    assert not re.search(r" at 0x[0-9a-f]{6,}|Traceback", text), text


def refusal(call) -> SCFFError | None:
    """The error of a call that is refused, or None where it is answered; anything foreign, and any noise, fails."""
    with warnings.catch_warnings(record=True) as noise:
        warnings.simplefilter("always")
        try:
            call()
        except SCFFError as error:
            refused: SCFFError | None = error
        else:
            refused = None
    # scikit-learn's convention, which its checks ask for.
    noise = [one for one in noise if "does not have valid feature names" not in str(one.message)]
    assert not noise, f"noise: {noise[0].category.__name__}: {noise[0].message}"
    if refused is not None:
        sentence(str(refused))
    return refused
