"""``python -m scff.pretrain``."""

import sys

from scff.cli.main import main

sys.argv.insert(1, "pretrain")
main()
