"""What a run has spent, and what its children may draw."""
