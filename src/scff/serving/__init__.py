"""Scoring: one class for batches wherever they come from, and one function for whole tables."""

from scff.serving.progress import Failure, Progress, Scored
from scff.serving.run import score
from scff.serving.scorer import Scorer

__all__ = ["Failure", "Progress", "Scored", "Scorer", "score"]
