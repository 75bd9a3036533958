"""What came through of a reply that is still streaming."""

from run_specialist.messages import spoken
from run_specialist.providers.base import Delta
from run_specialist.tools.respond import NAME as RESPOND


class Draft:
    """Grows with the pieces of one reply."""

    def __init__(self) -> None:
        self._text = ""
        self._arguments = ""

    def add(self, delta: Delta) -> None:
        """Take the next piece."""
        if delta.tool == RESPOND:
            self._arguments += delta.text
        elif delta.tool is None:
            self._text += delta.text

    @property
    def is_answering(self) -> bool:
        """True once `respond` is being called."""
        return bool(self._arguments)

    def __len__(self) -> int:
        return len(self._arguments) + len(self._text)

    @property
    def text(self) -> str:
        """The answer as far as it came, else the text; never thinking."""
        if not self._arguments:
            return spoken(self._text)
        from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, and only a streamed reply needs it

        try:
            arguments = from_json(self._arguments.encode("utf-8", "replace"), partial_mode="trailing-strings")
        except ValueError:
            return spoken(self._text)
        return str(arguments.get("answer") or "") if isinstance(arguments, dict) else ""
