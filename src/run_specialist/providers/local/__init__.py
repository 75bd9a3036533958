"""Models on the user's own machine: servers with a chat completions API, and weights in a file."""
