"""Which requests share a gate, and which errors count as refusals."""

import gc

import pytest

from run_specialist.errors import UsageError
from run_specialist.providers import admission as gate_module
from run_specialist.providers import anthropic, openai_chat
from run_specialist.providers.admission import GATES, VARIABLE, Gate, Gates, ceiling

KEY = "sk-ant-very-secret-key-123456"


@pytest.fixture
def client():
    """Return a function that makes a client for an address and a key."""

    def make(url="http://127.0.0.1:9", key=KEY, module=anthropic):
        return module.make_client(base_url=url, api_key=key)

    return make


def test_r1_a_gate_belongs_to_an_address_and_a_key(client):
    """Clients with the same address and key share a gate; another key, address or path has its own."""
    first = GATES.of(client())
    assert GATES.of(client("http://127.0.0.1:9/")) is first
    others = [GATES.of(client(key="another")), GATES.of(client("http://127.0.0.1:8"))]
    others.append(GATES.of(client("http://127.0.0.1:9/v1")))
    assert len({id(gate) for gate in (first, *others)}) == 4


def test_r1_the_key_is_not_kept(client):
    """Neither the gates nor what they refer to contain the key."""
    gates = Gates()
    gates.of(client())
    seen, todo = set(), [gates]
    while todo:
        one = todo.pop()
        if id(one) not in seen and not isinstance(one, type):
            seen.add(id(one))
            assert not (isinstance(one, str | bytes) and KEY in str(one))
            todo += [each for each in gc.get_referents(one) if not callable(each) and type(each).__name__ != "module"]
    assert len(seen) > 5


def test_r1_gates_that_are_not_in_use_are_forgotten(client, monkeypatch):
    """A program with many keys keeps only the gates with state."""
    monkeypatch.setattr(gate_module, "MOST_GATES", 3)
    gates = Gates()
    busy = gates.of(client(key="busy"))
    busy.under_way.add(object())
    for number in range(10):
        gates.of(client(key=f"key {number}"))
    assert len(gates._gates) <= 3
    assert gates.of(client(key="busy")) is busy


def test_r1_both_apis_share_a_gate_only_at_the_same_address(client):
    """A local server that speaks both APIs is one endpoint if its addresses are the same."""
    chat = client("http://127.0.0.1:9", module=openai_chat)
    assert isinstance(GATES.of(chat), Gate)


@pytest.mark.parametrize(("text", "number"), [("", None), (" ", None), ("4", 4), (" 12 ", 12)])
def test_r3_the_environment_sets_the_ceiling(monkeypatch, text, number):
    """The variable counts if the caller gives no number."""
    monkeypatch.setenv(VARIABLE, text)
    assert ceiling(None) == number
    assert ceiling(7) == 7


@pytest.mark.parametrize("text", ["0", "-1", "1.5", "many", "٣", "9" * 30])
def test_r3_a_number_that_is_none_is_refused(monkeypatch, text):
    """The error names the variable and what it must be."""
    monkeypatch.setenv(VARIABLE, text)
    with pytest.raises(UsageError, match=f"{VARIABLE}: must be an integer of at least 1, got '"):
        ceiling(None)


@pytest.mark.parametrize("given", [0, -3, True, 1.0, "4"])
def test_r3_an_argument_that_is_no_number_is_refused(given):
    """The error names the argument."""
    with pytest.raises(UsageError, match="requests_at_once: must be an integer of at least 1, got"):
        ceiling(given)
