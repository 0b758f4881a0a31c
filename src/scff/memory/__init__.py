"""Measure a peak; keep to a budget; pages of one's own. Knows no model."""
