"""Column scores, Core and Tail, leaves: the fold plan. Knows no torch, no model and no query row."""
