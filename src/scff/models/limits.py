"""What a model file may hold at most. Nothing in it is compressed, so it never takes more memory than its own size."""

__all__ = ["BRACKETS", "CELLS", "DIMENSIONS", "HEADER_BYTES", "JSON_BYTES", "TEXT"]

JSON_BYTES = 64 << 20
"""Of ``model.json``: a million column names."""

BRACKETS = 1_000_000
"""Lists and objects in ``model.json``; an empty one takes thirty times its two characters once it is read."""

TEXT = 1_000_000
"""Characters of one piece of text in ``model.json``."""

HEADER_BYTES = 32 << 20
"""Of the list of arrays in a safetensors member."""

DIMENSIONS = 8
"""Of an array."""

CELLS = 1 << 48
"""Of an array, an empty dimension counting as one: shapes beyond it are nonsense that NumPy cannot express."""
