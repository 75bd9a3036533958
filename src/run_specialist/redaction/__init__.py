"""Mask credentials in a text before anything else sees it."""

from run_specialist.redaction.mask import MASK
from run_specialist.redaction.redact import redact, redactor

__all__ = ["MASK", "redact", "redactor"]
