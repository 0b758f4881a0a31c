"""TabPFN, from v1 to 3.5."""
