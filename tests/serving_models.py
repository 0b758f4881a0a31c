"""A scorer that dies on purpose; in a module of its own so that worker processes can import it."""

from __future__ import annotations

import os
import signal

from scff.serving import Scorer


class Deadly(Scorer):
    """Kills its process on rows that begin with a million, unless somebody died before and left a note."""

    def __init__(self, *arguments, note, **options):
        super().__init__(*arguments, **options)
        self.note = note

    def predictions(self, rows):
        if len(rows) and float(rows.iloc[0, 0]) == 1e6 and not self.note.exists():
            self.note.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return super().predictions(rows)
