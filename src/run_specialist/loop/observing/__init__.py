"""Who watches a run: listeners, the streamed reply, spans."""
