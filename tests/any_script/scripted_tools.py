"""Tools that follow any script."""

import asyncio
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any

from run_specialist.errors import ToolError
from run_specialist.tools.base import Output, Tool


@dataclass
class Clock:
    """The time of the event loop, plus jumps of the clock."""

    jumped: float = 0

    def __call__(self) -> float:
        """Return the time [s]."""
        return asyncio.get_running_loop().time() + self.jumped


class Panic(BaseException):
    """A BaseException such as some native extensions raise."""


class Unspeakable(Exception):
    """An error that raises when it is converted to text."""

    def __str__(self) -> str:
        raise ValueError("no words")


RAISED = {
    "fail": ToolError("not today"),
    "crash": RuntimeError("crashed"),
    "exit": SystemExit(3),
    "cancelled": asyncio.CancelledError("by itself"),
    "panic": Panic("native"),
    "late": TimeoutError("late"),
    "unspeakable": Unspeakable(),
}
RETURNED = {
    "tell": "one note",
    "lots": "much " * 5_000,
    "nothing": "",
    "blank": " \n",
    "odd": "\ud800 and \x00",
    "number": 42,
    "none": None,
    "list": ["a", {"b": 1}],
    "json": '{"found": 1}',
    "noted": Output("text", "[a note]"),
}
WAITS = ("slow", "hang", "grumpy", "deaf")
"""Instructions that wait: 3 s, endlessly, raising another error when cancelled, ignoring the first cancellation."""


@dataclass
class Hands:
    """The state that the tools of one run share."""

    clock: Clock
    done: list[str]
    """Instructions that the tools received, in the order in which the calls started."""


HANDS: ContextVar[Hands] = ContextVar("hands")


async def _do(how: str) -> Any:
    hands = HANDS.get()
    hands.done.append(how)
    if how in RAISED:
        raise RAISED[how]
    if how in RETURNED:
        return RETURNED[how]
    if how == "jump":
        hands.clock.jumped += 7
        return "jumped"
    try:
        await asyncio.sleep(3 if how == "slow" else 10_000)
    except asyncio.CancelledError:
        if how == "grumpy":
            raise RuntimeError("not like this") from None
        if how != "deaf":
            raise
    return "waited"


TOOLS = (Tool("do", "Do something.", _do), Tool("look", "Look.", _do, repeatable=True))
