"""Check the URLs that a model wants to fetch."""

from collections.abc import Sequence
from urllib.parse import urljoin, urlsplit, urlunsplit

from run_specialist.errors import ToolError

LONGEST = 2_000
"""Maximum length of a URL; a longer one may leak read data [characters]."""
_MAX_SHOWN = 200


def checked(url: str, allowed_domains: Sequence[str], base: str = "") -> str:
    """Return an absolute URL without its fragment.

    allowed_domains: with their subdomains; empty = all.
    base: URL that a redirect is relative to.
    Raises ToolError if it must not be fetched.
    """
    text = url.strip()
    shown = text[:_MAX_SHOWN]
    try:
        parts = urlsplit(urljoin(base, text))
        host, port = parts.hostname, parts.port
    except ValueError:
        raise ToolError(f"{shown} is no valid URL") from None
    if parts.scheme not in {"http", "https"} or not host:
        raise ToolError(f"{shown}: only http:// and https:// URLs can be fetched")
    if parts.username is not None or parts.password is not None:
        raise ToolError(f"{host}: a URL with a user name or a password is not fetched")
    if len(text) > LONGEST or any(ord(character) <= ord(" ") for character in text):
        raise ToolError(f"{shown} is no valid URL: at most {LONGEST} characters, without blanks")
    if allowed_domains and not any(_is_below(host, domain) for domain in allowed_domains):
        raise ToolError(f"{host} is not allowed; allowed_domains: {', '.join(allowed_domains)}")
    authority = f"[{host}]" if ":" in host else host
    return urlunsplit(
        (parts.scheme, authority if port is None else f"{authority}:{port}", parts.path or "/", parts.query, "")
    )


def _is_below(host: str, domain: str) -> bool:
    host, domain = (one.rstrip(".").lower() for one in (host, domain))
    return host == domain or host.endswith(f".{domain}")
