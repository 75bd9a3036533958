"""Find, leniently parse and check specialist files."""
