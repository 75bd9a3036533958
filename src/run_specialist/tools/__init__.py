"""Tools that a specialist can call, and the interface they share."""
