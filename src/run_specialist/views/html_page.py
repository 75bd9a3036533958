"""Render self-contained HTML pages from the templates of this package."""

import base64
import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from run_specialist.views.page import formats

if TYPE_CHECKING:
    from jinja2 import Template


@dataclass(frozen=True)
class HtmlPage:
    """A page of this package; its template is compiled when it is first rendered."""

    name: str
    """Base name of the template, its style and its script."""
    filters: Mapping[str, Callable[..., Any]]
    """Filters of the template, by name."""
    styles: tuple[str, ...] = ()
    """Base names of further styles, which precede the page's own."""

    def render(self, values: Mapping[str, Any]) -> str:
        """Return the page with these values as one document; all untrusted text is escaped."""
        return self._template.render(values)

    @cached_property
    def _template(self) -> "Template":
        from jinja2 import Environment, StrictUndefined  # noqa: PLC0415 - only pages need it
        from markupsafe import Markup  # noqa: PLC0415 - only pages need it

        def finalize(value: object) -> object:
            return formats.legible(value) if isinstance(value, str) and not isinstance(value, Markup) else value

        page = Environment(
            autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True, finalize=finalize
        )
        page.filters |= self.filters
        style = "".join(_resource(f"{one}.css") for one in (*self.styles, self.name))
        script = _resource(f"{self.name}.js")
        parts = {"style": Markup(style), "script": Markup(script)}  # noqa: S704 - files of this package
        page.globals |= {**parts, "policy": _content_security_policy(style, script)}
        return page.from_string(_resource(f"{self.name}.html.j2"))


def _resource(name: str) -> str:
    return files(__package__).joinpath(name).read_text(encoding="utf-8")


def _content_security_policy(style: str, script: str) -> str:
    """Return a policy that allows only this style and this script, and no network access."""
    allowed = {"style-src": style, "script-src": script}
    parts = [f"{name} 'sha256-{_digest(text)}'" for name, text in allowed.items()]
    return "; ".join(["default-src 'none'", *parts, "base-uri 'none'", "form-action 'none'"])


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
