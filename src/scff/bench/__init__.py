"""The paper's evaluation as a command: declared studies, paired runs with receipts, statistics, tables and figures."""
