"""What came through of a reply that is still streaming."""

from run_specialist.providers.base import Delta
from run_specialist.record.messages import spoken
from run_specialist.tools.respond import NAME as RESPOND


class PartialReply:
    """Grows with the pieces of one reply."""

    def __init__(self) -> None:
        # Joined where they are asked for: a reply may come in a hundred thousand pieces.
        self._said: list[str] = []
        self._given: list[str] = []

    def add(self, delta: Delta) -> None:
        """Take the next piece."""
        if delta.tool == RESPOND:
            self._given.append(delta.text)
        elif delta.tool is None:
            self._said.append(delta.text)

    @property
    def is_answering(self) -> bool:
        """True once `respond` is being called."""
        return any(self._given)

    def __len__(self) -> int:
        return sum(map(len, self._given)) + sum(map(len, self._said))

    @property
    def text(self) -> str:
        """The answer as far as it came, else the text; never thinking."""
        said, given = "".join(self._said), "".join(self._given)
        if not given:
            return spoken(said)
        from jiter import from_json  # noqa: PLC0415 - comes with the SDKs, and only a streamed reply needs it

        try:
            arguments = from_json(given.encode("utf-8", "replace"), partial_mode="trailing-strings")
        except ValueError:
            return spoken(said)
        return str(arguments.get("answer") or "") if isinstance(arguments, dict) else ""
