"""Where weights come from, and that they are what they claim."""
