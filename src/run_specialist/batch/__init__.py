"""One question to a specialist for each of many items, on one machine."""
