"""Tools that show files."""
