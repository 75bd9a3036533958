"""Write the answers of a batch."""
