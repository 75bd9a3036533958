"""Plans of a compaction, and checks of the transcripts that result from them."""

import json

from run_specialist.loop.compaction import CompactionPlan, plan
from tests.wire.simulator.rules import blocks, messages
from tests.wire.simulator.rules.base import Call

RULES = (
    *messages.RULES_BEFORE_BLOCKS,
    *blocks.RULES_ON_SHAPE,
    *blocks.RULES_ON_TEXT,
    *messages.RULES,
)


def planned(said, *, size=10_000, target=0, summary_limit=0, chunk_size=1_000) -> CompactionPlan:
    """Return the plan of a pass that summarizes as much as possible by default; there must be one."""
    found = plan(said, size=size, target=target, summary_limit=summary_limit, chunk_size=chunk_size)
    assert found is not None
    return found


def archived_ids(found: CompactionPlan) -> list[str]:
    """Return the ids of the outputs that a plan archives."""
    return [pair.call.id for pair in found.archived]


def chunk_texts(found: CompactionPlan) -> str:
    """Return the text of all chunks, which the requests for notes contain."""
    return "\n".join(unit.text for chunk in found.chunks for unit in chunk)


def refusals(said) -> list[str]:
    """Return the errors with which the simulated API would refuse the messages."""
    call = Call("POST", "/", {}, body={"messages": [json.loads(one.encoded) for one in said]})
    return [message for rule in RULES if (message := rule.broken_by(call))]
