"""Admission of requests to an endpoint: limited in number, within the vendor's rate limits, shared by all runs."""
