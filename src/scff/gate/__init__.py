"""The Tail's one page of mathematics, and the record of a decision."""
