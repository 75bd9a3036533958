"""Runs that are hard to display: odd characters, huge results, duplicate ids, and unfinished runs."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from typing import Any

from run_specialist.errors import ProviderError
from run_specialist.record.journal import Received, Returned
from run_specialist.store.stored import StoredRun
from tests.journals import stored, until
from tests.views.full import grep, read
from tests.views.recording import Did, recorded, turn

ODD = (
    "</script></pre><script>window.harmed = 1</script><img src=x onerror='window.harmed=1'>{{ 7*7 }}{% raw %} &amp; "
    "\x1b[31mred\x1b[0m \x00 \x07 \x7f \x9b \u202edesrever\u202c \ud83d half \ufeff שלום עולם \U0001f600 ]]>"
)


def hostile(value: Any) -> Any:
    """Return a stored value with the odd text in place of each word HOSTILE, as another program may have written it."""
    if isinstance(value, str):
        return value.replace("HOSTILE", ODD)
    if isinstance(value, Mapping):
        return {hostile(key): hostile(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(map(hostile, value))
    if is_dataclass(value):
        return replace(value, **{one.name: hostile(getattr(value, one.name)) for one in fields(value) if one.init})
    return value


def odd_run() -> StoredRun:
    """Return a run with hostile text in every field, and a server that repeats one call id."""
    odd = "one HOSTILE"
    run = stored(
        recorded(
            turn(odd, grep(odd, odd, call_id="same"), Did(odd, {odd: odd}, call_id="same")),
            turn("", read("c", odd, call_id="same"), Did("read", None, call_id="same")),
            turn("", Did("respond", {"answer": odd, "evidence": [{"source": odd, "quote": odd}], "gaps": [odd]})),
            question=odd,
            model=odd,
            tool_calls_limit=4,
        )
    )
    frozen = {"system": odd, "tools": [odd, {"name": odd}], "settings": {odd: odd}, "root": odd}
    return hostile(replace(run, specialist=odd, frozen=frozen))


def huge_run() -> StoredRun:
    """Return a run with a result of a megabyte, and a question of 2,000 words."""
    big = read("all.txt", "x" * 500_000 + "\n" + "word " * 100_000)
    return stored(recorded(turn("", big), turn("It is long."), question="Why? " * 2_000, tool_calls_limit=None))


def interrupted_run() -> StoredRun:
    """Return a run whose process died while two of three calls were running."""
    three = [read("a.py", "     1\ta"), read("b.py", "     1\tb"), read("c.py", "     1\tc", 0.3)]
    records = recorded(turn("First.", grep("a", "b.py:1: a")), turn("I read three files at once.", *three))
    return stored(until(records, Returned, 2))


def pending_run() -> StoredRun:
    """Return a running run with a reply that is not in the transcript yet."""
    records = recorded(turn("First.", grep("a", "b.py:1: a")), turn("And now:", read("a.py", "")), time_limit=60.0)
    return replace(stored(until(records, Received, 2)), status="running")


def empty_run() -> StoredRun:
    """Return a run that has just begun, with only its question stored."""
    run = stored(recorded()[:1])
    return replace(run, status="running", frozen={}, snapshot=None, events=(), messages=())


def failed_run() -> StoredRun:
    """Return a failed run with errors only, and without an answer."""
    failing = grep("a", "the search could not be run", is_error=True)
    return stored(recorded(turn("", failing), ProviderError("the API answered 529: overloaded"), turns_limit=5))


def structured_run() -> StoredRun:
    """Return a run with a structured answer."""
    answer = Did("respond", {"answer": {"files": ["a.py", "b.py"], "sure": True, "note": "</pre>"}})
    return stored(recorded(turn("", answer), cost_limit=1.0, output_schema={"type": "object"}))
