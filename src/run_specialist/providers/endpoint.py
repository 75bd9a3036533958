"""The model APIs, with the names that error messages use."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Endpoint:
    """One API with its SDK, at the vendor or on a server of the user."""

    sdk: str
    """Package of the SDK; the SDKs of both APIs use the same names for their exceptions."""
    kind: str
    """Name of the kind of server in error messages."""
    vendor: str = ""
    """Prefix of its models, also reported in telemetry; empty = the name of the SDK."""
    key_variable: str = ""
    """Environment variable with the API key, if it is not the default one."""
    url_variable: str = ""
    """Environment variable with the base URL, if it is not the default one."""

    @property
    def key(self) -> str:
        """The environment variable with the API key."""
        return self.key_variable or f"{self.sdk.upper()}_API_KEY"

    @property
    def url(self) -> str:
        """The environment variable with the base URL."""
        return self.url_variable or f"{self.sdk.upper()}_BASE_URL"

    @property
    def prefix(self) -> str:
        """The prefix of model ids, with the colon."""
        return f"{self.vendor or self.sdk}:"

    @property
    def wrong_server(self) -> str:
        """The hint in errors about an invalid response."""
        return f"does {self.url} point to a {self.kind} server?"


MESSAGES = Endpoint("anthropic", "Messages-compatible")
CHAT = Endpoint("openai", "chat completions")

OPENAI_URL = "https://api.openai.com/v1"
"""Base URL of the vendor of chat completions."""
