"""What the file tools may see, and how it is opened."""
