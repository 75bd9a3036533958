"""Parse the bytes of a specialist file into front matter and body."""
