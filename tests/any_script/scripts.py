"""Hypothesis strategies for scripts: the model's replies, the limits and the disturbances of a run."""

from dataclasses import dataclass, field, replace
from typing import Any

from hypothesis import strategies as st

from run_specialist.budget import Kind
from run_specialist.record.messages import Stop, Usage
from tests.any_script.scripted_model import RAISED, RETURNED, WAITS, Line, ScriptedCall

STUBBORN = Line(Stop.WANTS_TOOLS, wishes=(ScriptedCall("do", {"how": "tell"}),))
"""Calls a tool in every reply, even after the order to respond."""
MUTE = Line(Stop.ANSWERED)
"""Ends its turn with an empty text."""
SLEEPY = replace(STUBBORN, seconds=20)
SLUGGISH = Line(Stop.PAUSED, "wait")
"""Pauses in every reply and never completes its turn."""
DUTIFUL = Line(Stop.WANTS_TOOLS, wishes=(ScriptedCall("respond", {"answer": "the answer"}),))
"""Calls `respond` immediately."""
HALF = Line(Stop.TRUNCATED, "half", STUBBORN.wishes)
"""Is truncated in every reply, within a tool call."""

SCHEMA = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}


@dataclass(frozen=True)
class Script:
    """A run and everything that happens during it."""

    lines: tuple[Line, ...] = ()
    afterwards: Line = STUBBORN
    summaries: tuple[Line, ...] = (Line(Stop.ANSWERED, "notes"),)
    limits: dict[Kind, float | None] = field(default_factory=lambda: {Kind.TOOL_CALLS: 3})
    settings: dict[str, Any] = field(default_factory=dict)
    """Keys of the specialist's file."""
    model: dict[str, bool] = field(default_factory=dict)
    """Fields of the ScriptedModel."""
    schema: bool = False
    countdown_from: float | None = 0.5
    style: str = "remaining"
    limit_fields: bool = False
    warn_at: float | None = None
    fields: bool = False
    """Whether an augmenter adds JSON fields."""
    archive: bool = True
    abort_at: int | None = None
    """Number of the event at which the listener aborts the run, from 0."""
    abort_after: float | None = None
    """Time at which the run is aborted from outside [s]."""
    cancel_at: int | None = None
    """Number of the event after which the parent cancels the run, from 0."""
    deaf_at: int | None = None
    """Number of the first event at which the listener raises, from 0."""

    @property
    def priced(self) -> bool:
        """Whether the price of the model is known."""
        return self.model.get("priced", True)


def rarely(strategy: st.SearchStrategy[Any], default: Any) -> st.SearchStrategy[Any]:
    """Draw from a strategy in one of six cases, otherwise return the default."""
    return st.sampled_from([st.just(default)] * 5 + [strategy]).flatmap(lambda chosen: chosen)


TEXTS = st.sampled_from(
    [
        *("", " \n", "some text", '{"n": 1}', "```json\n{}\n```", "\ud83d alone", '{"answer": {"n": 2}}'),
        *('{"answer": "in JSON", "evidence": null, "gaps": []}', '{"answer": "cut', '{"ans'),
    ]
)
USAGES = st.builds(
    Usage, *(st.sampled_from(numbers) for numbers in ([0, 10, 900, 40_000], [0, 700], [0, 50], [0, 5, 300, 20_000]))
)
SECONDS = rarely(st.sampled_from([0.5, 3.0, 40.0]), 0)

ANSWERS = st.sampled_from(
    [
        {"answer": "the answer"},
        {"answer": {"n": 1}},
        {"answer": {"n": "x"}},
        {"answer": 42, "evidence": [{"source": "a:1", "quote": "one note"}], "gaps": ["all"]},
        {"answer": "x", "evidence": "nothing", "gaps": {"a": 1}},
        {"answer": " "},
        {"evidence": [{"source": "a:1", "quote": "one note"}]},
        {"n": 3},
        {},
        None,
        "no object",
        [1],
    ]
)
HOW = st.sampled_from(["tell", "tell", "tell", *RETURNED, *RAISED, *WAITS, "jump"])
IDS = rarely(st.sampled_from(["a", "b", "", "new_1", "context_summarize_1"]), None)
CALLS = st.one_of(
    st.builds(ScriptedCall, st.sampled_from(["do", "look"]), st.fixed_dictionaries({"how": HOW}), IDS),
    st.builds(ScriptedCall, st.sampled_from(["do", "look"]), st.fixed_dictionaries({"how": HOW}), IDS),
    st.builds(
        ScriptedCall, st.just("do"), st.sampled_from([None, "text", {}, {"how": 3}, {"how": "tell", "more": 1}]), IDS
    ),
    st.builds(ScriptedCall, st.sampled_from(["nosuch", "", "context_summarize"]), st.just({}), IDS),
    st.builds(
        ScriptedCall,
        st.just("get_tool_response"),
        st.fixed_dictionaries({"execution_id": st.sampled_from(["new_1", "a"]), "offset": st.sampled_from([0, 5])}),
        IDS,
    ),
)
SOME = st.lists(CALLS, min_size=1, max_size=5).map(tuple)
RESPONDS = st.tuples(st.lists(CALLS, max_size=2), ANSWERS, st.lists(CALLS, max_size=1), ANSWERS, st.booleans()).map(
    lambda drawn: (
        *drawn[0],
        ScriptedCall("respond", drawn[1]),
        *drawn[2],
        *([ScriptedCall("respond", drawn[3])] if drawn[4] else []),
    )
)
_AROUND = {
    "usage": USAGES,
    "seconds": SECONDS,
    "jump": rarely(SECONDS, 0),
    "thinks": st.booleans(),
    "spoils": st.booleans(),
}
_WORK = st.builds(Line, st.just(Stop.WANTS_TOOLS), rarely(TEXTS, ""), SOME, **_AROUND)
_CUT = st.builds(
    Line,
    st.just(Stop.TRUNCATED),
    TEXTS,
    st.one_of(st.just(()), SOME, RESPONDS),
    more_room_helps=rarely(st.just(False), True),
    **_AROUND,
)
_ODD = st.builds(
    Line,
    st.sampled_from(
        [Stop.PAUSED, Stop.PAUSED, Stop.WANTS_TOOLS, Stop.REFUSED, "context", "error", "forcing", "bug", "hang"]
    ),
    TEXTS,
    rarely(SOME, ()),
    **_AROUND,
)
_END = st.one_of(
    st.builds(Line, st.just(Stop.WANTS_TOOLS), rarely(TEXTS, ""), RESPONDS, **_AROUND),
    st.builds(Line, st.just(Stop.ANSWERED), TEXTS, rarely(SOME, ()), **_AROUND),
)
LINES = st.sampled_from([*[_WORK] * 8, _CUT, _CUT, _END, _ODD]).flatmap(lambda chosen: chosen)
SUMMARIES = st.lists(
    st.builds(
        Line,
        st.sampled_from(
            [Stop.ANSWERED, Stop.ANSWERED, Stop.TRUNCATED, Stop.REFUSED, "error", "context", "bug", "hang"]
        ),
        st.sampled_from(["notes", "notes", "", "long notes " * 400]),
        **_AROUND,
    ),
    min_size=1,
    max_size=3,
).map(tuple)

_SMALL = st.sampled_from([6, 5, 12, 9, 3, 2, 1, 0])
FINITE = st.one_of(
    st.fixed_dictionaries({Kind.TOOL_CALLS: _SMALL}),
    st.fixed_dictionaries({Kind.TURNS: _SMALL}),
    st.fixed_dictionaries({Kind.TOOL_CALLS: _SMALL, Kind.TURNS: _SMALL}),
)
"""Limits that end a run with any model."""
FURTHER = st.fixed_dictionaries(
    {
        Kind.TOKENS: rarely(st.sampled_from([0, 100, 5_000, 60_000]), None),
        Kind.COST: rarely(st.sampled_from([0, 0.001, 0.05, 2.0]), None),
        Kind.TIME: st.sampled_from([None, None, None, 60.0, 8.0]) | rarely(st.sampled_from([0, 0.5]), None),
        Kind.CHARACTERS: rarely(st.sampled_from([0, 5, 30, 9_000]), None),
    }
)
AN_EVENT = rarely(st.integers(0, 40), None)

SCRIPTS = st.builds(
    Script,
    lines=st.lists(LINES, max_size=12).map(tuple),
    afterwards=st.sampled_from([STUBBORN, DUTIFUL, MUTE, SLEEPY, HALF, DUTIFUL, SLUGGISH]),
    limits=st.builds(lambda further, finite: {**further, **finite}, FURTHER, FINITE),
    settings=st.fixed_dictionaries(
        {
            "landing": st.sampled_from(
                ["auto", "force", "order", "finalize", "none", "finalize", "auto", "schema", "stop"]
            ),
            "evidence": rarely(st.sampled_from(["require", "off"]), "check"),
            "summarize_at": st.sampled_from([None, None, 1, 500]),
            "context_target": rarely(st.sampled_from([30, 5_000]), None),
            "summary_limit": rarely(st.sampled_from([1, 40]), None),
            "tool_result_limit": rarely(st.sampled_from([1, 10, 30]), 20_000),
            "parallel_tools_limit": st.sampled_from([1, 4]),
            "tool_timeout": rarely(st.just(2.0), 60.0),
        }
    ),
    model=st.fixed_dictionaries(
        {
            "forced_choice": st.booleans(),
            "refuses_force": rarely(st.just(True), False),
            "schema": st.booleans(),
            "schema_first": st.booleans(),
            "refuses_schema": rarely(st.just(True), False),
            "priced": st.booleans(),
        }
    ),
    countdown_from=st.sampled_from([0.5, None, 0.0, 1.0, 0.55, 0, 3]),
    style=st.sampled_from(["remaining", "budget"]),
    limit_fields=rarely(st.just(True), False),
    warn_at=st.sampled_from([None, 1, 0, 0.9, 3, 0.4]),
    fields=rarely(st.just(True), False),
    schema=rarely(st.just(True), False),
    archive=st.booleans(),
    summaries=SUMMARIES,
    abort_at=rarely(AN_EVENT, None),
    abort_after=rarely(rarely(st.sampled_from([0.0, 1.0, 30.0]), None), None),
    cancel_at=rarely(AN_EVENT, None),
    deaf_at=rarely(AN_EVENT, None),
)
