"""A researcher that is no language model: it searches, reads around the hits, and answers in quotes."""

from run_specialist.providers.offline.provider import OfflineProvider

__all__ = ["OfflineProvider"]
