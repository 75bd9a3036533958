"""Admission of requests to an endpoint: how many at once, within the vendor's rate limits, shared by all runs."""
