"""From bytes to front matter and body."""
