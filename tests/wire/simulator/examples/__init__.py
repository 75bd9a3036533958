"""For every rule requests that break it, each beside the same request made right."""
