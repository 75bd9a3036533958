"""The specialist `finder` and scripted replies for its runs."""

from run_specialist.specialist.fields import Specialist
from tests.scripted_provider import calls

FINDER = Specialist(name="finder", description="Finds", prompt="You find notes.", tools=(), tool_calls_limit=3)
LOOKS = calls(("look", {"query": "owls"}))
ANSWER = calls(("respond", {"answer": "mice"}), first_id=999)
