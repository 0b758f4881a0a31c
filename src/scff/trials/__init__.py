"""Beyond the paper: alternatives, and the held-back labelled rows that choose between them."""
