"""What past runs show."""
