"""The part of a streamed reply that has arrived so far."""

from run_specialist.providers.base import Delta
from run_specialist.record.blocks import spoken
from run_specialist.tools.respond import NAME as RESPOND


class PartialReply:
    """Collects the pieces of one reply."""

    def __init__(self) -> None:
        # Joined on demand: a reply may arrive in a hundred thousand pieces.
        self._texts: list[str] = []
        self._answers: list[str] = []

    def add(self, delta: Delta) -> None:
        """Add the next piece."""
        if delta.tool == RESPOND:
            self._answers.append(delta.text)
        elif delta.tool is None:
            self._texts.append(delta.text)

    @property
    def is_answering(self) -> bool:
        """True once `respond` is being called."""
        return any(self._answers)

    def __len__(self) -> int:
        return sum(map(len, self._answers)) + sum(map(len, self._texts))

    @property
    def text(self) -> str:
        """The arrived part of the answer, or of the text if `respond` is not being called; never thinking."""
        text, arguments_json = "".join(self._texts), "".join(self._answers)
        if not arguments_json:
            return spoken(text)
        from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, and only a streamed reply needs it

        try:
            arguments = from_json(arguments_json.encode("utf-8", "replace"), partial_mode="trailing-strings")
        except ValueError:
            return spoken(text)
        return str(arguments.get("answer") or "") if isinstance(arguments, dict) else ""
