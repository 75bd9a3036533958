"""Notify listeners of a run, collect streamed replies, and trace with OpenTelemetry."""
