"""Scoring tables with a fitted model."""
