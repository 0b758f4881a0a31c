"""A fitted model as a file, and back."""
