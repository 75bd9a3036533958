"""Keep the beginning and the end of a command's output."""


class KeptOutput:
    """Keeps a bounded part of the output, however long it is."""

    def __init__(self, most: int) -> None:
        """Keep at most this many bytes, half of them from the beginning."""
        self._most = max(most // 2, 1)
        self._head = bytearray()
        self._tail = bytearray()
        self.total = 0
        """Total output so far [bytes]."""

    def add(self, chunk: bytes) -> None:
        """Add the next part."""
        self.total += len(chunk)
        room = self._most - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[max(room, 0) :]
        del self._tail[: -self._most]

    def text(self, limit: int) -> str:
        """Return the output, with a line for the omitted part.

        limit: maximum length [characters].
        """
        left_out = self.total - len(self._head) - len(self._tail)
        if left_out == 0 and len(whole := _decoded(self._head + self._tail)) <= limit:
            return whole
        head, tail = _decoded(self._head), _decoded(self._tail)
        if left_out == 0:
            head, tail = whole, whole
        note = f"\n[... of {self.total:,} bytes only the beginning and the end are here ...]\n"
        room = max(limit - len(note), 2) // 2
        return (head[:room] + note + tail[-room:])[:limit]


def _decoded(raw: bytes | bytearray) -> str:
    text = raw.decode("utf-8", "replace").replace("\r\n", "\n").replace("\r", "\n")
    # Control characters, such as those of colors, say nothing to a model.
    return "".join(one for one in text if one >= " " or one in "\n\t")
