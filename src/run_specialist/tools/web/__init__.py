"""The tool `fetch`: public web pages as Markdown, without reaching into the machine's own network."""
