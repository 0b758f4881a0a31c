"""Support-Compiled Feature Folding: a frozen tabular foundation model on tables of any width."""

__version__ = "0.1.0"
