"""What a provider learns from refusals and replies, what requests cost, and how long a context is."""

import json

import genai_prices
import pytest
from genai_prices.data_snapshot import get_snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

from run_specialist.errors import ChoiceRefused, ForcingRefused, SchemaRefused
from run_specialist.providers import local_servers as facts
from run_specialist.providers.base import Capabilities, Choice, Request
from run_specialist.providers.knowledge import Knowledge
from run_specialist.providers.models import cost
from run_specialist.record.messages import Message, Reply, Stop, Usage
from run_specialist.specialist.answer_schema import strict
from run_specialist.tools.respond import respond_tool
from tests.plugins.tiers import examples
from tests.scripted_provider import calls, says
from tests.wire.local_api import llamacpp, lmstudio, ollama, vllm

SCHEMA = strict(respond_tool().input_schema)
WRITTEN = json.dumps({"answer": "Mice.", "evidence": None, "gaps": []})
LOOK, RESPOND = calls(("look", {})), calls(("look", {}), ("respond", {"answer": "Mice."}))


def request(choice):
    """Return a request with this choice."""
    schema = SCHEMA if choice is Choice.SCHEMA else None
    return Request([Message.user("What?")], choice, 100, schema=schema)


def learnt(choice, reply):
    """Return what is known after a reply to a request: forced choice, schema, none."""
    knowledge = Knowledge(Capabilities(forced_choice=True, max_output_tokens=9, schema=True))
    knowledge.learn_from(request(choice), reply)
    known = knowledge.capabilities
    return known.forced_choice, known.schema, known.none_choice


@pytest.mark.parametrize(
    ("choice", "reply", "known"),
    [
        (Choice.RESPOND, RESPOND, (True, True, True)),
        (Choice.RESPOND, LOOK, (False, True, True)),
        (Choice.SCHEMA, says(WRITTEN), (True, True, True)),
        (Choice.SCHEMA, says(f"<think>hm</think>\n{WRITTEN}"), (True, True, True)),
        (Choice.SCHEMA, says("Mice."), (True, False, True)),
        (Choice.SCHEMA, says('{"answer": 1, "evidence": null, "gaps": []}'), (True, False, True)),
        (Choice.SCHEMA, says("[" * 100_000), (True, False, True)),
        (Choice.SCHEMA, LOOK, (True, False, True)),
        (Choice.SCHEMA, Reply(Stop.WANTS_TOOLS, (*says(WRITTEN).content, *LOOK.content)), (True, False, True)),
        (Choice.AUTO, says("Mice."), (True, True, True)),
        (Choice.NONE, LOOK, (True, True, True)),
    ],
)
def test_g2_a_reply_shows_whether_the_endpoint_obeys(choice, reply, known):
    """A force answered with something else and a schema answered with other text are remembered; nothing else is."""
    assert learnt(choice, reply) == known


@pytest.mark.parametrize("choice", [Choice.RESPOND, Choice.SCHEMA])
@pytest.mark.parametrize(
    "reply",
    [*(says("Mi", stop) for stop in (Stop.TRUNCATED, Stop.PAUSED, Stop.REFUSED)), says(""), says("<think>hm")],
    ids=["truncated", "paused", "refused", "empty", "thinking"],
)
def test_g2_a_reply_that_is_no_answer_teaches_nothing(choice, reply):
    """Truncated, paused, refused and empty replies say nothing about the endpoint."""
    assert learnt(choice, reply) == (True, True, True)


@pytest.mark.parametrize(
    ("choice", "error", "known"),
    [
        (Choice.RESPOND, ForcingRefused, (False, True, True)),
        (Choice.SCHEMA, SchemaRefused, (True, False, True)),
        (Choice.NONE, ChoiceRefused, (True, True, False)),
    ],
)
def test_s0_10_a_refusal_is_remembered(choice, error, known):
    """Each refused choice has an error of its own and is not tried again."""
    knowledge = Knowledge(Capabilities(forced_choice=True, max_output_tokens=9, schema=True))
    assert type(knowledge.refused(choice, "no")) is error
    capabilities = knowledge.capabilities
    assert (capabilities.forced_choice, capabilities.schema, capabilities.none_choice) == known


MILLION = 1_000_000


def test_a_price_may_depend_on_the_size_of_the_request():
    """A price may depend on the request's size, so usages must not be summed before pricing."""
    small, large = (cost(Usage(tokens), "claude-haiku-5-5", "anthropic") for tokens in (100_000, 200_000))
    assert small == pytest.approx(0.01)
    assert large == pytest.approx(0.10)


def test_an_unknown_model_has_no_price():
    """An unknown model has no price; none is guessed."""
    assert cost(Usage(1_000), "my-own-model", "anthropic") is None
    assert cost(Usage(1_000), "gpt-5", "anthropic") is None


LISTED = [(vendor.id, model.id) for vendor in get_snapshot().providers for model in vendor.models]
TOKENS = st.integers(0, 2 * MILLION)


@settings(max_examples=examples(120))
@given(st.sampled_from([one for one in LISTED if one[0] in {"anthropic", "openai"}]), TOKENS, TOKENS, TOKENS, TOKENS)
def test_every_price_equals_that_of_the_price_list(listed, plain, read, written, output):
    """For every model and size the cost equals what the price list's own arithmetic gives."""
    vendor, model = listed
    usage = genai_prices.Usage(
        input_tokens=plain + read + written, cache_read_tokens=read, cache_write_tokens=written, output_tokens=output
    )
    try:
        expected = float(genai_prices.calc_price(usage, model, provider_id=vendor).total_price)
    except LookupError:  # some entries of the list are patterns, and no models
        expected = None
    found = cost(Usage(plain, read, written, output), model, vendor)
    assert found == (expected if expected is None else pytest.approx(expected, rel=1e-9))


LIES = [-1, 0, 255, 2**25 + 1, 10**400, 8192.0, "8192", True, None, [8192], {"n": 8192}]


def of_ollama(routes, name="qwen3:8b", assumed=None):
    """Return the length that the routes of Ollama tell."""
    return facts.of_ollama(name, routes["POST /api/show"].get(name), routes["GET /api/ps"], assumed)


def of_lmstudio(routes, name="qwen2.5-7b"):
    """Return the length that the routes of LM Studio tell."""
    return facts.of_lmstudio(name, routes["GET /api/v0/models"], routes["GET /v1/models"])


def test_llamacpp_and_vllm_tell_it_directly():
    """llama.cpp in its properties, vLLM in the list of its models, by name."""
    assert facts.of_llamacpp(llamacpp(8192)["GET /props"]).tokens == 8192
    listed = vllm(16384)["GET /v1/models"]
    assert facts.of_vllm("Qwen/Qwen3-8B", listed).tokens == 16384
    assert facts.of_vllm("other", listed).tokens is None


@pytest.mark.parametrize(
    ("routes", "tokens", "noted"),
    [
        (ollama(40960, running=32768), 32768, False),
        (ollama(40960, num_ctx=16384, running=32768), 16384, False),
        (ollama(8192, num_ctx=16384), 8192, False),
        (ollama(40960), 4096, True),
        (ollama(None), None, False),
        (ollama(40960, running="x"), 4096, True),
    ],
)
def test_ollama_serves_less_than_the_model_could_take(routes, tokens, noted):
    """The parameter of the model decides, then how it is loaded; else the default is assumed, with a warning."""
    found = of_ollama(routes)
    assert found.tokens == tokens
    assert ("is not loaded" in found.note) is noted


def test_ollama_adds_a_tag_to_names_without_one():
    """`qwen3` is loaded as `qwen3:latest`; a colon in the registry's name is not a tag."""
    assert of_ollama(ollama(40960, "qwen3", running=9999), "qwen3").tokens == 4096
    routes = ollama(40960, "qwen3:latest", running=9999)
    routes["POST /api/show"]["qwen3"] = routes["POST /api/show"]["qwen3:latest"]
    assert of_ollama(routes, "qwen3").tokens == 9999
    routes = ollama(40960, "host:1/qwen3:latest", running=9999)
    routes["POST /api/show"]["host:1/qwen3"] = routes["POST /api/show"]["host:1/qwen3:latest"]
    assert of_ollama(routes, "host:1/qwen3").tokens == 9999


@pytest.mark.parametrize(("assumed", "tokens"), [(32768, 32768), (131072, 40960)])
def test_the_variable_of_ollama_is_believed(assumed, tokens):
    """OLLAMA_CONTEXT_LENGTH is how the user has set the server, up to what the model can take."""
    assert of_ollama(ollama(40960), assumed=assumed) == facts.ContextLength(tokens)


@pytest.mark.parametrize(
    ("routes", "tokens", "noted"),
    [(lmstudio(32768, 8192), 8192, False), (lmstudio(32768), 4096, True), (lmstudio(2048), 2048, False)],
)
def test_lmstudio_tells_how_a_loaded_model_is_loaded(routes, tokens, noted):
    """A model that is not loaded yet is assumed to be loaded with the default."""
    found = of_lmstudio(routes)
    assert found.tokens == tokens
    assert ("is not loaded" in found.note) is noted


@pytest.mark.parametrize("lie", LIES)
def test_lies_about_the_length_are_ignored(lie):
    """Negative, tiny, huge and non-integer values count as unknown."""
    assert facts.of_llamacpp(llamacpp(lie)["GET /props"]).tokens is None
    assert facts.of_vllm("Qwen/Qwen3-8B", vllm(lie)["GET /v1/models"]).tokens is None
    assert of_lmstudio(lmstudio(lie)).tokens is None
    assert of_lmstudio(lmstudio(8192, lie)).tokens == 4096
    assert of_ollama(ollama(lie)).tokens is None


KEYS = ("data", "models", "id", "name", "model_info", "parameters", "x.context_length", "context_length", "n_ctx")
KEYS += ("max_model_len", "status", "value", "default_generation_settings", "loaded_context_length")
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9) | st.floats(allow_nan=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=4),
    max_leaves=12,
)


@given(JSON, JSON)
def test_any_json_gives_plausible_lengths_and_names(one, other):
    """Nothing raises; a length is in its bounds and a name is printable."""
    found = [
        facts.of_llamacpp(one),
        facts.of_vllm("", one),
        facts.of_lmstudio("", one, other),
        facts.of_ollama("", one, other, None),
    ]
    assert all(each.tokens is None or 256 <= each.tokens <= 2**25 for each in found)
    assert all(name.isprintable() and name for name in [*facts.model_names(one), *facts.loaded_names(one)])
