"""``python -m scff.bench``."""

from scff.bench.cli import app

app(prog_name="scff bench")
