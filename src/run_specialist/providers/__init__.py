"""Where replies come from: the Messages API, an offline researcher, a script."""
