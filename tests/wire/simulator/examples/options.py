"""Examples for the top-level fields of the body."""

from .base import HAIKU, Body, Example, request, words

SAMPLING = ("temperature", "top_p", "top_k")
REQUIRED = ("model", "max_tokens", "messages")
EFFORTS = ("low", "max")

GOOD = request()
PAIRS: list[tuple[str, str, Body, Body]] = [
    *(("fields.sampling", f"{name}: not supported", request(**{name: 1}), GOOD) for name in SAMPLING),
    ("fields.unknown", "budget: Extra inputs are not permitted", request(budget=30), GOOD),
    *(("fields.required", f"{name}: Field required", request(**{name: None}), GOOD) for name in REQUIRED),
    ("fields.types", "messages: Input should be a valid list", request(messages="hello"), GOOD),
    ("fields.types", "stream: Input should be a valid bool", request(stream="no"), request(stream=False)),
    (
        "model.known",
        "model: claude-opus-9",
        request(model="claude-opus-9"),
        request(model=f"{HAIKU}-20261021"),
    ),
    ("max_tokens.positive", "greater than or equal to 1", request(max_tokens=0), request(max_tokens=1)),
    ("max_tokens.positive", "valid integer", request(max_tokens=True), request(max_tokens=1)),
    ("max_tokens.limit", "64001 > 64000", request(max_tokens=64_001), request(max_tokens=64_000)),
    ("system.shape", "system.0", request(system=["Be brief."]), request(system=[words("Be brief.")])),
    ("stop_sequences.shape", "non-whitespace", request(stop_sequences=["\n"]), request(stop_sequences=["x"])),
    (
        "output_config.shape",
        "output_config.style",
        request(output_config={"style": 1}),
        request(output_config={}),
    ),
    *(
        ("output_config.effort", "'xhigh'", request(output_config={"effort": "most"}), right)
        for right in (request(output_config={"effort": effort}) for effort in EFFORTS)
    ),
]
EXAMPLES = tuple(Example(*pair) for pair in PAIRS)
