"""What is summarised when a transcript grows too long. A pure plan."""
