"""The length of the context, from the answers of four servers, some of which are wrong."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers import local_servers as facts
from tests.wire.local_api import llamacpp, lmstudio, ollama, vllm

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
        (ollama(40960, num_ctx=16384), 16384, False),
        (ollama(40960, num_ctx=16384, running=32768), 16384, False),
        (ollama(8192, num_ctx=16384), 8192, False),
        (ollama(40960), 4096, True),
        (ollama(2048), 2048, False),
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


def test_lmstudio_without_its_own_list_is_read_like_vllm():
    """An older version has the list of the common API only."""
    routes = {"GET /api/v0/models": None, "GET /v1/models": vllm(8192, "qwen2.5-7b")["GET /v1/models"]}
    assert of_lmstudio(routes).tokens == 8192


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
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(KEYS),
            inner,
            max_size=4,
        )
    ),
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
