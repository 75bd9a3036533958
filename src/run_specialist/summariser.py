"""Summarise and archive what a plan says."""
