"""Providers of model replies: the Messages API, chat completions, an offline researcher, a script."""
