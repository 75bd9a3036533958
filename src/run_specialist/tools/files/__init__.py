"""File tools: search, grep, glob, read and ls."""
