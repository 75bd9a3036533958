"""Plans of a compaction, and checks of the transcripts that result from them."""

import json

from run_specialist.loop.compaction.plan import Plan, plan
from tests.wire.simulator.rules import blocks, messages
from tests.wire.simulator.rules.base import Call

RULES = (
    *messages.RULES_BEFORE_BLOCKS,
    *blocks.RULES_ON_SHAPE,
    *blocks.RULES_ON_TEXT,
    *messages.RULES,
)


def planned(said, *, size=10_000, target=0, summary_limit=0, chunk_size=1_000) -> Plan:
    """Plan a pass that takes all it can, unless told otherwise; there must be something to do."""
    found = plan(said, size=size, target=target, summary_limit=summary_limit, chunk_size=chunk_size)
    assert found is not None
    return found


def archived_ids(found: Plan) -> list[str]:
    """Return the ids of what a plan archives."""
    return [pair.call.id for pair in found.archived]


def chunk_texts(found: Plan) -> str:
    """Return all that goes into requests."""
    return "\n".join(unit.text for chunk in found.chunks for unit in chunk)


def refusals(said) -> list[str]:
    """Return what the loopback server of the wire tests would say."""
    call = Call("POST", "/", {}, body={"messages": [json.loads(one.encoded) for one in said]})
    return [message for rule in RULES if (message := rule.broken_by(call))]
