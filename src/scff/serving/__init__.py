"""Scoring: one class for batches wherever they come from, and one function for whole tables."""

from scff.serving.run import Failure, Progress, Scored, score
from scff.serving.scorer import Scorer

__all__ = ["Failure", "Progress", "Scored", "Scorer", "score"]
