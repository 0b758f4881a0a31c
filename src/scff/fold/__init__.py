"""Algorithm 1: encode leaves, average, gate, one context; where leaves are encoded, and what is kept of them."""
