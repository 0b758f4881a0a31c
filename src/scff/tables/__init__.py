"""What a table is, in memory or on disk; files and formats. Knows no torch and no model."""
