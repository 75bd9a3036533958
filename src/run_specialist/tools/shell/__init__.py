"""The tool `bash`: commands in a sandbox."""
