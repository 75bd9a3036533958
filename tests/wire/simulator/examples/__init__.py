"""Requests that break each rule, each with its valid counterpart."""
