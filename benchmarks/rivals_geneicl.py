"""Answers the ``geneicl`` arm of ``rivals.py``; runs in an interpreter that has ``geneicl==1.0.0``, not by hand.

Reads the name of a folder a line, answers ``in.npz`` there by ``out.npy``, and prints one line of JSON.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from unittest import mock

import geneicl
import numpy as np
import torch

SEEDS = (0, 1, 2)


def models() -> list[geneicl.GeneICL]:
    """Load its three checkpoints; its own loader would run code that a file brings along, so it is told not to."""
    load = torch.load
    with mock.patch("torch.load", lambda *args, **options: load(*args, **{**options, "weights_only": True})):
        return [geneicl.GeneICL(ckpt=geneicl.CKPT.with_name(f"trm_segmented8_s{i}.pt"), device="cpu") for i in SEEDS]


def main() -> None:
    """Answer until there are no more questions."""
    torch.set_num_threads(1)
    loaded = models()
    for line in sys.stdin:
        folder = Path(line.strip())
        try:
            data = np.load(folder / "in.npz")
            began = time.process_time()
            p = np.mean([one.fit(data["X"], data["y"]).predict_proba(data["Q"]) for one in loaded], axis=0)
            facts: dict[str, float | str] = {"cpu_seconds": time.process_time() - began}
            np.save(folder / "out.npy", p)
        except Exception as error:
            facts = {"error": f"{type(error).__name__}: {error}"}
        print(json.dumps(facts), flush=True)


if __name__ == "__main__":
    main()
