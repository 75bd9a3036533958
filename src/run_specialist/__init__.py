"""Hand a question to a specialist written in Markdown; it lands softly at its limit and always answers."""
