"""The two model APIs, with the names that error messages use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API with its SDK."""

    sdk: str
    """Package of the SDK; the SDKs of both APIs use the same names for their exceptions."""
    kind: str
    """Name of the kind of server in error messages."""

    @property
    def key(self) -> str:
        """The environment variable with the API key."""
        return f"{self.sdk.upper()}_API_KEY"

    @property
    def url(self) -> str:
        """The environment variable with the base URL."""
        return f"{self.sdk.upper()}_BASE_URL"

    @property
    def wrong_server(self) -> str:
        """The hint in errors about an invalid response."""
        return f"does {self.url} point to a {self.kind} server?"


MESSAGES = Endpoint("anthropic", "Messages-compatible")
CHAT = Endpoint("openai", "chat completions")

OPENAI_URL = "https://api.openai.com/v1"
"""Base URL of the vendor of chat completions."""
