"""Mask credentials in texts."""

from run_specialist.redaction.mask import MASK
from run_specialist.redaction.private_keys import lines_without_keys
from run_specialist.redaction.process_credentials import credentials, passwords
from run_specialist.redaction.redact import redact, redactor

__all__ = ["MASK", "credentials", "lines_without_keys", "passwords", "redact", "redactor"]
