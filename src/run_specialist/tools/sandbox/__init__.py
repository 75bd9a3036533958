"""File access for the file tools: visible paths, ignore rules, and safe reading."""
