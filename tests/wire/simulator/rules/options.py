"""Rules on the top-level fields of the body, except messages and tools."""

from collections.abc import Iterator
from typing import Any

from tests.wire.simulator.models import find_model

from .base import Call, Table

REQUIRED = ("model", "max_tokens", "messages")
SAMPLING = ("temperature", "top_p", "top_k")
OPTIONAL = (
    "cache_control",
    "container",
    "diagnostics",
    "inference_geo",
    "metadata",
    "output_config",
    "service_tier",
    "speed",
    "stop_sequences",
    "stream",
    "system",
    "thinking",
    "tool_choice",
    "tools",
)
TASK_BUDGETS = "task-budgets-2026-03-13"
EFFORTS = ("low", "medium", "high", "xhigh", "max")


def is_int(value: object) -> bool:
    """Tell whether a JSON value is a whole number; true and false are not."""
    return isinstance(value, int) and not isinstance(value, bool)


RULES = Table()


@RULES.rule("fields.sampling")
def sampling(call: Call) -> Iterator[str]:
    """Refuse the sampling parameters, which this API version has dropped."""
    for name in SAMPLING:
        if name in call.body:
            yield f"{name}: not supported with this API version"


@RULES.rule("fields.unknown")
def unknown(call: Call) -> Iterator[str]:
    """Refuse fields that the API does not know."""
    for name in call.body:
        if name not in (*REQUIRED, *OPTIONAL, *SAMPLING):
            yield f"{name}: Extra inputs are not permitted"


@RULES.rule("fields.required")
def required(call: Call) -> Iterator[str]:
    """Require model, max_tokens and messages."""
    for name in REQUIRED:
        if name not in call.body:
            yield f"{name}: Field required"


@RULES.rule("fields.types")
def types(call: Call) -> Iterator[str]:
    """Require the plain fields to be of their type."""
    kinds: dict[str, tuple[type, ...]] = {
        "model": (str,),
        "messages": (list,),
        "tools": (list,),
        "metadata": (dict,),
        "output_config": (dict,),
        "stream": (bool,),
        "system": (str, list),
        "thinking": (dict,),
        "tool_choice": (dict,),
    }
    for name, allowed in kinds.items():
        if name in call.body and not isinstance(call.body[name], allowed):
            yield f"{name}: Input should be a valid {' or '.join(kind.__name__ for kind in allowed)}"


@RULES.rule("model.known", 404, "not_found_error")
def model_known(call: Call) -> Iterator[str]:
    """Require a model that exists."""
    if find_model(call.body["model"], call.models) is None:
        yield f"model: {call.body['model']}"


@RULES.rule("max_tokens.positive")
def max_tokens_positive(call: Call) -> Iterator[str]:
    """Require room for an answer, a whole number of tokens."""
    if not is_int(call.body["max_tokens"]) or call.body["max_tokens"] < 1:
        yield "max_tokens: Input should be a valid integer greater than or equal to 1"


@RULES.rule("max_tokens.limit")
def max_tokens_limit(call: Call) -> Iterator[str]:
    """Refuse more room than the model can fill."""
    asked, most = call.body["max_tokens"], call.model.max_output
    if asked > most:
        yield (
            f"max_tokens: {asked} > {most}, which is the maximum allowed number of output tokens for "
            f"{call.body['model']}"
        )


@RULES.rule("system.shape")
def system_shape(call: Call) -> Iterator[str]:
    """Require a string or text blocks."""
    system = call.body.get("system", "")
    for index, block in enumerate(system if isinstance(system, list) else ()):
        good = isinstance(block, dict) and block.get("type") == "text" and isinstance(block.get("text"), str)
        if not good:
            yield f"system.{index}: Input should be a text block"


@RULES.rule("stop_sequences.shape")
def stop_sequences(call: Call) -> Iterator[str]:
    """Require strings with something in them."""
    given = call.body.get("stop_sequences", [])
    if not isinstance(given, list) or not all(isinstance(word, str) and word.strip() for word in given):
        yield "stop_sequences: each stop sequence must contain non-whitespace"


@RULES.rule("output_config.shape")
def output_config(call: Call) -> Iterator[str]:
    """Refuse unknown output options; a task budget needs its beta header and a model that has it."""
    config: dict[str, Any] = call.body.get("output_config", {})
    has_budget = call.headers.get("anthropic-beta") == TASK_BUDGETS and call.body["model"].startswith("claude-")
    for name in config:
        if name not in ("effort", "format") and not (name == "task_budget" and has_budget):
            yield f"output_config.{name}: Extra inputs are not permitted"


@RULES.rule("output_config.effort")
def effort(call: Call) -> Iterator[str]:
    """Take five words for the effort."""
    given = call.body.get("output_config", {}).get("effort")
    if given is not None and given not in EFFORTS:
        yield f"output_config.effort: Input should be {', '.join(map(repr, EFFORTS))}"
