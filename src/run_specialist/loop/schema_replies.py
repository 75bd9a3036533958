"""Read replies that were constrained to the schema of `respond`: their text is the JSON input of `respond`."""

import json
import re
from collections.abc import Mapping
from functools import cached_property
from typing import Any

from run_specialist.providers.base import Choice, Delta
from run_specialist.record.blocks import spoken
from run_specialist.record.messages import Reply, Stop
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.json_schema.strict import restored, strict
from run_specialist.tools.base import Tool
from run_specialist.tools.respond import NAME as RESPOND
from run_specialist.tools.respond import Response

_THINK = "<think>"
_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n|\n?```\Z", re.IGNORECASE)


class SchemaReplies:
    """Reads the replies of one run."""

    def __init__(self, respond: Tool | None, answer_schema: AnswerSchema | None) -> None:
        """Prepare; nothing is converted before the first request.

        respond: None if it is not offered.
        """
        self._respond = respond
        self._answer_schema = answer_schema

    @cached_property
    def schema(self) -> Mapping[str, Any] | None:
        """The schema of a request, adapted for constrained decoding; None if `respond` is not offered."""
        return strict(self._respond.input_schema) if self._respond else None

    def response(self, reply: Reply, choice: str) -> Response | None:
        """Return the response that the reply contains as JSON; None if there is none.

        choice: the tool choice of the request. If the reply was cut off, the received part is read.
        """
        if choice != Choice.SCHEMA or self._respond is None:
            return None
        is_cut, text = reply.stop is Stop.TRUNCATED, _FENCE.sub("", reply.text)
        arguments = _decoded(text, is_cut=is_cut)
        # An empty object that is complete says nothing as an input: it is kept as text.
        is_empty = not arguments and text.rstrip().endswith("}")
        if not isinstance(arguments, dict) or is_empty or not self._is_input(arguments, is_cut=is_cut):
            return None
        given = restored(arguments, self._respond.input_schema)
        return Response.parse(given if isinstance(given, dict) else {}, None if is_cut else self._answer_schema)

    def _is_input(self, arguments: Mapping[str, Any], *, is_cut: bool) -> bool:
        """Return whether an object is input of `respond`: it has an answer, or was cut off before it."""
        known = self._respond.input_schema.get("properties", {}) if self._respond else {}
        return "answer" in arguments or (is_cut and (not arguments or not known.keys().isdisjoint(arguments)))


class SchemaStream:
    """Marks the pieces of one streamed reply as input of `respond`, once the reply turns out to be JSON."""

    def __init__(self) -> None:
        self._held: list[str] = []
        self._is_thinking = self._is_known = False
        self._tool: str | None = None

    def marked(self, delta: Delta) -> Delta | None:
        """Return the next piece to show; None while it is unknown whether the reply is JSON."""
        if delta.tool is not None:
            return delta
        if self._is_known:
            return Delta(delta.text, self._tool)
        self._held.append(delta.text)
        # Thinking may be long, and only a tag ends it.
        if self._is_thinking and ">" not in delta.text:
            return None
        held = "".join(self._held)
        text = spoken(held).lstrip()
        self._is_thinking = not text and _THINK in held and "</think>" not in held
        # The tag may arrive in pieces.
        if _THINK.startswith(text):
            return None
        self._is_known, self._tool = True, RESPOND if text.startswith("{") else None
        return Delta(text if self._tool else held, self._tool)


def _decoded(text: str, *, is_cut: bool) -> object:
    """Return the value of a JSON text, or of its received part; None if the text is not JSON."""
    try:
        if not is_cut:
            return json.loads(text)
        from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, and only a reply that was cut off needs it

        return from_json(text.encode("utf-8", "replace"), partial_mode="trailing-strings")
    except (ValueError, RecursionError):
        return None
