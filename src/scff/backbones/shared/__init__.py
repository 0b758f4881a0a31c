"""What several adapters need."""
