"""``python -m scff.bench``."""

import sys

from scff.cli.main import main

sys.argv.insert(1, "bench")
main()
