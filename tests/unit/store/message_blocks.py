"""Hypothesis strategies for JSON values and the blocks of messages."""

from hypothesis import strategies as st

ANY_TEXT = st.text(st.characters(exclude_categories=[]), max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
    max_leaves=20,
)
OTHER = st.builds(
    lambda kind, more: {**more, "type": kind},
    st.sampled_from(["thinking", "tool_use", "made_up"]),
    st.dictionaries(ANY_TEXT, JSON, max_size=4),
)
BLOCKS = st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": ANY_TEXT}) | OTHER, max_size=4)
