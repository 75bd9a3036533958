"""The real SDK against the simulator."""
import anthropic
from tests.wire.simulator import replies


def test_text(messages_api):
    """A reply of text arrives."""
    api = messages_api([replies.says("hello ü"), replies.says("hello ü", replies.tool_use("x", {"a": 1}))])
    with anthropic.Anthropic(base_url=api.base_url, api_key="k") as c:
        m = c.messages.create(model="claude-opus-5-5", max_tokens=100, messages=[{"role": "user", "content": "hi"}])
        print(m)
        with c.messages.stream(model="claude-opus-5-5", max_tokens=100, messages=[{"role": "user", "content": "hi"}]) as s:
            m = s.get_final_message()
        print(m)
