"""The two APIs that models are reached by, as our errors speak of them."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API: whose SDK reaches it, and what its servers are called."""

    sdk: str
    """The SDK's package; the SDKs of both APIs name their exceptions alike."""
    kind: str
    """What a server of this API is."""

    @property
    def key(self) -> str:
        """The environment variable that holds the key."""
        return f"{self.sdk.upper()}_API_KEY"

    @property
    def url(self) -> str:
        """The environment variable that names another server."""
        return f"{self.sdk.upper()}_BASE_URL"

    @property
    def wrong_server(self) -> str:
        """What to ask oneself when an answer makes no sense."""
        return f"is {self.url} that of a {self.kind} server?"


MESSAGES = Endpoint("anthropic", "Messages-compatible")
CHAT = Endpoint("openai", "chat completions")
