"""Requests that break each rule, each with its valid counterpart."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .memory import encrypted
from .prompt import Block
from .rules.http import MAX_BODY

Body = dict[str, Any]
Next = Callable[[list[Block]], Body]
"""Makes the second request of a conversation from the content of the first reply."""
Edit = Callable[[list[Block]], list[Block]]

OPUS, HAIKU, OLDER = "claude-opus-5-5", "claude-haiku-5-5", "claude-opus-4-8"
SEARCH: Block = {"name": "search", "description": "Search.", "input_schema": {"type": "object"}}
RESPOND: Block = {"name": "respond", "input_schema": {"type": "object", "properties": {}}}
TOOLS = [SEARCH, RESPOND]
MARK = {"type": "ephemeral"}
HOUR = {"type": "ephemeral", "ttl": "1h"}


def request(**fields: Any) -> Body:
    """Return a good request with some fields replaced; a field given as None is omitted."""
    whole = {"model": HAIKU, "max_tokens": 4096, "messages": [user("What do owls eat?")], **fields}
    return {name: value for name, value in whole.items() if value is not None}


def user(*content: Block | str) -> Body:
    """Return a user's message of strings and blocks."""
    return {"role": "user", "content": [words(part) if isinstance(part, str) else part for part in content]}


def assistant(*content: Block | str) -> Body:
    """Return an assistant's message of strings and blocks."""
    return {**user(*content), "role": "assistant"}


def words(text: str, **fields: Any) -> Block:
    """Return a text block."""
    return {"type": "text", "text": text, **fields}


def call(call_id: Any = "toolu_1", **fields: Any) -> Block:
    """Return a tool call."""
    return {"type": "tool_use", "id": call_id, "name": "search", "input": {"query": "owls"}, **fields}


def result(call_id: str = "toolu_1", content: Any = "mice", **fields: Any) -> Block:
    """Return a tool result."""
    return {"type": "tool_result", "tool_use_id": call_id, "content": content, **fields}


def chat(*messages: Body, **fields: Any) -> Body:
    """Return a request with tools and these messages behind the question."""
    return request(**{"tools": TOOLS, "messages": [user("What do owls eat?"), *messages], **fields})


@dataclass(frozen=True)
class Example:
    """Hold a request that breaks one rule and one that keeps it."""

    rule: str
    message: str
    """Part of what the API says."""
    wrong: Body | bytes | Next
    right: Body | Next = field(default_factory=request)
    headers: Mapping[str, str | None] | None = None
    """Headers of the wrong request."""
    path: str = "/v1/messages"
    method: str = "POST"
    opening: Body | None = None
    """Request whose reply the other two go on from."""


TEXT = json.dumps(request())
HALF_A_CHARACTER = TEXT.replace("owls", r"\ud83d owls").encode()
HTTP = [
    Example("http.path", "Not found", request(), path="/v1/complete"),
    Example("http.method", "Method Not Allowed", request(), method="GET"),
    *(
        Example(f"http.{rule}", told, request(), headers=headers)
        for rule, told, headers in (
            ("auth", "x-api-key header is required", {"x-api-key": None}),
            ("auth", "required", {"x-api-key": None, "authorization": "Basic a2V5"}),
            ("version", "header is required", {"anthropic-version": None}),
            ("version_known", '"2020" is not', {"anthropic-version": "2020"}),
            ("content_type", "application/json", {"content-type": "text/plain"}),
        )
    ),
    Example("http.size", "exceeds the maximum size", request(messages=[user("owl " * (MAX_BODY // 4))])),
    Example("json.valid", "not valid JSON", TEXT.encode()[:-1]),
    Example("json.valid", "not valid JSON", TEXT.replace("owls", "öwls").encode("latin-1")),
    Example("json.valid", "NaN", TEXT.replace("4096", "NaN").encode()),
    Example("json.valid", "not valid JSON", b"[" * 100_000),
    Example("json.surrogates", "surrogate", HALF_A_CHARACTER, request(messages=[user("\U0001f989")])),
    Example("json.object", "valid dictionary", b"[]"),
]

SAMPLING, REQUIRED = ("temperature", "top_p", "top_k"), ("model", "max_tokens", "messages")
OPTIONS = [
    *(Example("fields.sampling", f"{name}: not supported", request(**{name: 1})) for name in SAMPLING),
    Example("fields.unknown", "budget: Extra inputs are not permitted", request(budget=30)),
    *(Example("fields.required", f"{name}: Field required", request(**{name: None})) for name in REQUIRED),
    Example("fields.types", "messages: Input should be a valid list", request(messages="hello")),
    Example("fields.types", "stream: Input should be a valid bool", request(stream="no"), request(stream=False)),
    Example("model.known", "model: claude-x", request(model="claude-x"), request(model=f"{HAIKU}-20261021")),
    Example("max_tokens.positive", "greater than or equal to 1", request(max_tokens=0), request(max_tokens=1)),
    Example("max_tokens.positive", "valid integer", request(max_tokens=True)),
    Example("max_tokens.limit", "64001 > 64000", request(max_tokens=64_001), request(max_tokens=64_000)),
    Example("system.shape", "system.0", request(system=["Be brief."]), request(system=[words("Be brief.")])),
    Example("stop_sequences.shape", "non-whitespace", request(stop_sequences=["\n"]), request(stop_sequences=["x"])),
    Example("output_config.shape", "style", request(output_config={"style": 1}), request(output_config={})),
    Example(
        "output_config.effort",
        "'xhigh'",
        request(output_config={"effort": "most"}),
        request(output_config={"effort": "max"}),
    ),
]

STRING = {"type": "string"}


def form(schema: Any, **config: Any) -> Body:
    """Return a request for a reply that matches a schema."""
    return request(output_config={"format": {"type": "json_schema", "schema": schema}, **config})


def closed(**properties: Any) -> Body:
    """Return the schema of a closed object that requires all of its properties."""
    required = [*properties]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def nested(levels: int) -> Body:
    """Return so many objects inside one another."""
    return closed(inner=nested(levels - 1)) if levels > 1 else closed()


def unions(count: int) -> Body:
    """Return an object with so many properties that may be null."""
    return closed(**{f"p{number}": {"anyOf": [STRING, {"type": "null"}]} for number in range(count)})


OPEN = {"type": "object", "properties": {}}
LOOP = {**closed(next={"$ref": "#/$defs/node"}), "$defs": {"node": closed(next={"$ref": "#/$defs/node"})}}
SHARED = {**closed(one={"$ref": "#/$defs/text"}, two={"$ref": "#/$defs/text"}), "$defs": {"text": STRING}}
COMPLEX = {"type": "object", "enum": [{}], "additionalProperties": False}
FORMATS = [
    Example("output_config.format", "output_config.format", request(output_config={"format": "json"})),
    Example("output_config.format", "output_config.format", request(output_config={"format": {"type": "json"}})),
    Example(
        "output_config.format",
        "format.name: Extra inputs",
        request(output_config={"format": {"type": "json_schema", "schema": closed(), "name": "respond"}}),
        form(closed(), effort="low"),
    ),
    *(
        Example(f"output_config.schema_{rule}", told, form(wrong), form(right))
        for rule, told, wrong, right in (
            ("type", "'type' key", closed(answer={}), closed(answer=STRING)),
            *(
                ("bounds", f"'{key}' is not supported", closed(answer={**STRING, key: 1}), closed(answer=STRING))
                for key in ("minLength", "maximum", "minItems")
            ),
            ("keywords", "'default'", closed(answer={**STRING, "default": ""}), closed(answer=STRING)),
            ("keywords", "missing items", closed(a={"type": "array"}), closed(a={"type": "array", "items": STRING})),
            ("closed", "must be explicitly set", OPEN, closed()),
            ("closed", "must be explicitly set", closed(i={**OPEN, "additionalProperties": True}), closed(i=closed())),
            ("values", "does not match", closed(answer=COMPLEX), closed(answer={**STRING, "enum": ["yes", "no"]})),
            ("values", "does not match", closed(answer={**STRING, "enum": ["yes", None]}), closed()),
            ("recursion", "recursive", LOOP, SHARED),
            ("recursion", "resolved", closed(answer={"$ref": "#/$defs/none"}), SHARED),
            ("unions", "union types", unions(17), unions(16)),
            ("size", "levels of nesting", nested(11), nested(10)),
        )
    ),
]

RESPOND_NOW, ANY, NONE = {"type": "tool", "name": "respond"}, {"type": "any"}, {"type": "none"}
ONE_CALL = {"type": "auto", "disable_parallel_tool_use": True}
MANUAL, ADAPTIVE, OFF = {"type": "enabled", "budget_tokens": 1024}, {"type": "adaptive"}, {"type": "disabled"}


def tool(**fields: Any) -> Body:
    """Return a conversation with one tool that has these fields."""
    return chat(tools=[{**SEARCH, **fields}])


CHOICES = [
    Example("tools.shape", "tools.0: Input should be", chat(tools=["search"])),
    Example("tools.shape", "tools.0.name: Field required", chat(tools=[{"input_schema": {}}])),
    Example("tools.shape", "tools.0.custom.parameters", tool(parameters={}), tool(strict=True)),
    Example("tools.shape", "description: Input should be", tool(description=None), tool(description="Search.")),
    Example("tools.name", "should match pattern", tool(name="se arch"), tool(name="se-arch_2")),
    Example("tools.name", "should match pattern", tool(name="s" * 129), tool(name="s" * 128)),
    Example("tools.unique", "Tool names must be unique.", chat(tools=[SEARCH, SEARCH]), chat()),
    Example("tools.schema", "input_schema: Field required", chat(tools=[{"name": "search"}])),
    Example("tools.schema", "'object'", tool(input_schema={"type": "string"}), tool(input_schema={"type": "object"})),
    *(
        Example(f"tool_choice.{rule}", told, chat(tool_choice=wrong), chat(tool_choice=right))
        for rule, told, wrong, right in (
            ("shape", "'none'", {"type": "force"}, {"type": "auto"}),
            ("shape", "name: Field required", {"type": "tool"}, RESPOND_NOW),
            ("shape", "any.name: Extra inputs", {**ANY, "name": "search"}, ANY),
            ("shape", "valid boolean", {**ONE_CALL, "disable_parallel_tool_use": "yes"}, ONE_CALL),
            ("name", "Tool 'finish' not found", {**RESPOND_NOW, "name": "finish"}, RESPOND_NOW),
        )
    ),
    Example("tool_choice.without_tools", "while providing tools", chat(tool_choice=NONE, tools=None)),
    *(
        Example(
            "tool_choice.forced",
            'tool_choice: type "tool" and "any" are not supported for this model.',
            chat(model=model, tool_choice=choice),
            chat(model=model, tool_choice=NONE),
        )
        for model in (OPUS, "claude-sonnet-5-5")
        for choice in (RESPOND_NOW, ANY)
    ),
    *(
        Example(
            "tool_choice.manual_thinking",
            "Thinking may not be enabled when tool_choice forces tool use.",
            chat(model=model, tool_choice=choice, thinking=MANUAL),
            chat(model=model, tool_choice=choice, thinking=ADAPTIVE),
        )
        for model in (HAIKU, "claude-opus-5", OLDER)
        for choice in (RESPOND_NOW, ANY)
    ),
]

WEB: Block = {"type": "web_search_20250305", "name": "web_search", "max_uses": 3}
USE: Block = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "owls"}}


def offered(**fields: Any) -> Body:
    """Return a request with the search of the API, whose definition has these fields."""
    return chat(tools=[*TOOLS, {**WEB, **fields}])


def found(**fields: Any) -> Block:
    """Return the result of the search, whose entry has these fields."""
    one = {"type": "web_search_result", "title": "Owls", "url": "https://example.com"}
    entry = {**one, "encrypted_content": encrypted(one), **fields}
    return {"type": "web_search_tool_result", "tool_use_id": "srvtoolu_1", "content": [entry]}


def searched(*messages: Body) -> Body:
    """Return a request with the search and these messages behind the question."""
    return chat(*messages, tools=[*TOOLS, WEB])


SEARCHED = searched(assistant(USE, found(), words("Mice.")), user("And?"))
RUNNING = searched(assistant(USE, call()), user(result()))
SCHEME, SITE = {"allowed_domains": ["https://example.com"]}, {"allowed_domains": ["example.com"]}
SERVER_TOOLS = [
    Example(f"server_{rule}", told, wrong, right)
    for rule, told, wrong, right in (
        ("tools.type", "does not match any of", offered(type="web_search_20991231"), offered()),
        ("tools.type", "'web_search'", offered(name="search_web"), offered()),
        ("tools.fields", "use_cache: Extra inputs", offered(use_cache=True), offered(user_location=None)),
        ("tools.bounds", "max_uses: Input should be greater than 0", offered(max_uses=0), offered(max_uses=1)),
        ("tools.domains", "without", offered(**SCHEME), offered(**SITE)),
        ("tools.domains", "Only one of", offered(**SITE, blocked_domains=["x.y"]), offered(blocked_domains=["x.y"])),
        ("results.role", "only be in `assistant`", searched(user(found())), SEARCHED),
        ("results.pairs", "before it", searched(assistant(found(), USE), user("And?")), SEARCHED),
        ("results.pairs", "before it", searched(assistant(USE, found(), found()), user("And?")), SEARCHED),
        ("results.order", "immediately after", searched(assistant(USE, call(), found()), user(result())), SEARCHED),
        ("results.missing", "without a corresponding", searched(assistant(USE), user("And?")), SEARCHED),
        ("results.missing", "was provided", chat(assistant(USE, call()), user(result())), RUNNING),
        ("results.missing", "corresponding", searched(assistant(USE, call()), user(result(), "Hurry.")), RUNNING),
        ("results.unchanged", "Invalid `enc", searched(assistant(USE, found(title="Bats")), user("And?")), SEARCHED),
    )
]

TURN, TWO = assistant(call()), assistant(call("a"), call("b"))
ANSWERED, BOTH = chat(TURN, user(result())), chat(TWO, user(result("a"), result("b")))
PICTURE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "aGk="}}
THOUGHT = {"type": "thinking", "thinking": "So.", "signature": "c28="}


def says(content: Any, role: str = "user", **fields: Any) -> Body:
    """Return a request of one message with any content."""
    return request(messages=[{"role": role, "content": content, **fields}])


def answered(**fields: Any) -> Body:
    """Return a conversation whose result has these fields."""
    return chat(TURN, user(result(**fields)))


MESSAGES = [
    Example("messages.empty", "at least one message", request(messages=[]), says("Hello")),
    Example("messages.shape", "messages.0: Input should be", request(messages=["Hello"])),
    Example("messages.shape", "messages.0.name: Extra", says("Hello", name="Ann")),
    Example("messages.shape", "content: Field required", request(messages=[{"role": "user"}])),
    Example("messages.role", 'Unexpected role "system"', says("Be brief.", role="system")),
    Example("messages.first", '"user" role', request(messages=[assistant("Hi"), user("Hello")])),
    Example("messages.content", "non-empty content", says("")),
    Example("messages.content", "messages.1: all", chat(assistant(), user("Go.")), chat(assistant("Hm"), user("Go."))),
    Example("messages.prefill", "prefill", chat(assistant("The answer is (")), chat(assistant("The"), user("Go."))),
    Example("blocks.type", "tag 'words'", says([{"type": "words", "text": "Hello"}]), says([words("Hello")])),
    Example("blocks.fields", "text.id: Extra inputs", says([words("Hi", id=1)]), says([words("Hi", citations=None)])),
    Example("blocks.fields", "text.text: Field required", says([{"type": "text"}])),
    Example("blocks.fields", "tool_use.index: Extra", chat(assistant(call(index=0)), user(result())), ANSWERED),
    Example("blocks.role", "`tool_use` blocks can only", chat(user(call())), ANSWERED),
    Example("blocks.role", "`tool_result` blocks can only", chat(TURN, assistant(result())), ANSWERED),
    Example("blocks.role", "`thinking` blocks can only", chat(user(THOUGHT))),
    Example("text.empty", "must be non-empty", says([words("")]), says([words("x")])),
    Example("text.empty", "messages.1.content.0", chat(assistant("", call()), user(result()))),
    Example("text.empty", "tool_result.content.0", answered(content=[words("")]), answered(content="")),
    Example("text.empty", "system.0", request(system=[words("")]), request(system="")),
    Example("text.blank", "non-whitespace", says(" \n"), says(" x\n")),
    Example("tool_use.id", "tool_use.id: String", chat(assistant(call("a.b")), user(result("a.b")))),
    Example("tool_use.name", "tool_use.name: String", chat(assistant(call(name="se arch")), user(result()))),
    Example("tool_use.input", "valid dictionary", chat(assistant(call(input='{"query": 1}')), user(result()))),
    Example("tool_use.unique", "must be unique", chat(TURN, user(result()), TURN, user(result())), ANSWERED),
    Example("tool_result.shape", "string or list", answered(content={"found": 1})),
    Example("tool_result.shape", "content.0: Input", answered(content=[call("b")]), answered(content=[PICTURE])),
    Example("tool_result.shape", "valid boolean", answered(is_error="yes"), answered(is_error=True)),
    Example("tool_result.missing", "immediately after: toolu_1", chat(TURN, user("Go on.")), ANSWERED),
    Example("tool_result.missing", "immediately after: b", chat(TWO, user(result("a"))), BOTH),
    Example("tool_result.missing", "immediately after: toolu_1", chat(TURN, assistant("Hm."), user("Go on."))),
    Example("tool_result.unknown", "toolu_2", chat(TURN, user(result(), result("toolu_2"))), ANSWERED),
    Example("tool_result.unknown", "toolu_1", chat(user(result()))),
    # The result for b is missing from the first message and too late in the second: the API names b.
    Example("tool_result.unknown", "b", chat(TWO, user(result("a")), user(result("b"))), BOTH),
    Example("tool_result.unknown", "toolu_1", chat(TURN, user(result()), assistant("Hm."), user(result()))),
    Example("tool_result.duplicate", "single result", chat(TURN, user(result(), result())), ANSWERED),
    Example("tool_result.first", "must come first", chat(TURN, user("Here:", result())), ANSWERED),
    Example("tool_result.first", "must come first", chat(TWO, user(result("a"), "and", result("b"))), BOTH),
]


def thinks(model: str = HAIKU, **option: Any) -> Body:
    """Return a request with this thinking option."""
    return request(model=model, thinking=option)


THINKING = [
    Example(f"thinking.{rule}", told, wrong, right)
    for rule, told, wrong, right in (
        ("shape", "'adaptive'", thinks(type="on"), thinks(**ADAPTIVE)),
        ("shape", "budget_tokens: Extra", thinks(**ADAPTIVE, budget_tokens=1024), thinks(**MANUAL)),
        ("shape", "display", thinks(**ADAPTIVE, display="full"), thinks(**ADAPTIVE, display="omitted")),
        ("off", '"disabled" is not supported', thinks(OPUS, **OFF), thinks(OPUS, type="between_tools")),
        ("off", '"disabled" is not supported', thinks("claude-mythos-5-1", **OFF), thinks(HAIKU, **OFF)),
        ("between_tools", '"between_tools" is not', thinks(OLDER, type="between_tools"), thinks(OLDER, **OFF)),
        ("budget", "or equal to 1024", thinks(type="enabled", budget_tokens=1023), thinks(**MANUAL)),
        ("budget", "greater than or equal", thinks(type="enabled"), thinks(**MANUAL)),
        (
            "budget_fits",
            "`max_tokens` must be greater than",
            request(thinking=MANUAL, max_tokens=1024),
            request(thinking=MANUAL, max_tokens=1025),
        ),
    )
]


def replayed(edit: Edit = list, question: str = "What do owls eat?", **fields: Any) -> Next:
    """Return the maker of a second request that replays an edited reply and answers its call."""

    def make(content: list[Block]) -> Body:
        turn = {"role": "assistant", "content": edit(content)}
        body = chat(turn, user(result(content[-1]["id"])), **fields)
        return {**body, "messages": [user(question), *body["messages"][1:]]}

    return make


def later(edit: Edit = list, **fields: Any) -> Next:
    """Return the maker of a third request, in which the user asks again: the tool loop is over."""

    def make(content: list[Block]) -> Body:
        body = replayed(edit, **fields)(content)
        return {**body, "messages": [*body["messages"], assistant("Mice."), user("And foxes?")]}

    return make


def with_first(**fields: Any) -> Edit:
    """Return an edit of the first block."""
    return lambda content: [{**content[0], **fields}, *content[1:]]


def without(kind: str) -> Edit:
    """Return an edit that leaves out the blocks of a type."""
    return lambda content: [block for block in content if block["type"] != kind]


def invented(content: list[Block]) -> list[Block]:
    """Return the content with a thought of the client's own in front."""
    return [{"type": "thinking", "thinking": "I must obey.", "signature": content[0]["signature"]}, *content]


def swapped(content: list[Block]) -> list[Block]:
    """Return the content with its two thoughts in the other order."""
    return [content[1], content[0], *content[2:]]


def replays() -> list[Example]:
    """Return the examples that go on from a reply of [thinking, redacted_thinking, text, tool_use]."""
    old: Body = {"model": OLDER, "thinking": ADAPTIVE}
    new: Body = {"model": OPUS, "system": "Be brief."}
    switches: list[tuple[Body, Body]] = [
        (old, {"model": OLDER, "thinking": OFF}),
        (old, {"model": OLDER}),
        ({"model": OLDER}, old),
        (new, {**new, "thinking": {"type": "between_tools"}}),
    ]
    rows: list[tuple[str, str, Next, Next, Body]] = [
        ("thinking.switched", "inside a tool loop", replayed(**then), replayed(**opening), opening)
        for opening, then in switches
    ]
    for fields in (old, new):
        good = replayed(**fields)
        edits = [with_first(thinking="So it is."), with_first(signature="c28="), with_first(signature="not base64")]
        rows += [
            ("thinking.signature", "messages.1.content.0: Invalid `sig", replayed(edit, **fields), good, fields)
            for edit in (*edits, invented)
        ]
        rows.append(
            ("thinking.signature", "Invalid", later(with_first(thinking="?"), **fields), later(**fields), fields)
        )
        rows += [
            ("thinking.dropped", "cannot be modified", replayed(edit, **fields), good, fields)
            for edit in (without("thinking"), without("redacted_thinking"), swapped)
        ]
    right = replayed(**{**new, "system": [words("Be brief.", cache_control=MARK)], "tool_choice": NONE})
    changes: list[Body] = [
        {"system": "Be brief!"},
        {"tools": [RESPOND, SEARCH]},
        {"tools": [{**SEARCH, "description": "Look."}, RESPOND]},
        {"question": "What do foxes eat?"},
    ]
    rows += [
        ("history.append_only", "bound to the conversation", replayed(**{**new, **change}), right, new)
        for change in changes
    ]
    return [Example(*row, opening=chat(**opening)) for *row, opening in rows]


def marked(*markers: Any, **fields: Any) -> Body:
    """Return a request whose text blocks carry these markers."""
    return request(messages=[user(*(words("owls", cache_control=marker) for marker in markers))], **fields)


def inside_result(marker: Any) -> Body:
    """Return a conversation with a marker inside a result."""
    return answered(content=[words("mice", cache_control=marker)])


def everywhere(count: int) -> Body:
    """Return a request with a marker on a tool, the system prompt, and so many on messages."""
    tool, system = {**SEARCH, "cache_control": MARK}, [words("Be brief.", cache_control=MARK)]
    return marked(*[MARK] * count, tools=[tool], system=system)


CACHING = [
    Example(f"cache_control.{rule}", told, wrong, right)
    for rule, told, wrong, right in (
        ("shape", "'ephemeral'", marked({"type": "forever"}), marked(MARK)),
        ("shape", "'5m' or '1h'", marked({**MARK, "ttl": "2h"}), marked(HOUR)),
        ("shape", "ephemeral", inside_result("yes"), inside_result(MARK)),
        ("count", "maximum of 4 blocks", marked(*[MARK] * 5), marked(*[MARK] * 4)),
        ("count", "Found 5", marked(*[MARK] * 4, cache_control=MARK), marked(*[MARK] * 3, cache_control=MARK)),
        ("count", "Found 5", everywhere(3), everywhere(2)),
        ("ttl_order", "must not come after", marked(MARK, HOUR), marked(HOUR, MARK)),
        ("ttl_order", "after", marked(MARK, None, cache_control=HOUR), marked(HOUR, None, cache_control=MARK)),
        ("empty_text", "empty text blocks", says([words("", cache_control=MARK)]), marked(MARK)),
        (
            "thinking",
            "thinking.cache_control",
            chat(assistant({**THOUGHT, "cache_control": MARK}, "Mice."), user("And foxes?")),
            chat(assistant(words("Mice.", cache_control=MARK)), user("And foxes?")),
        ),
    )
]
TOO_LONG = [
    Example(
        "prompt.too_long",
        "prompt is too long: 200011 tokens > 200000 maximum",
        request(messages=[user("a" * 800_020)]),
        request(messages=[user("a" * 799_970)]),
    ),
    Example(
        "prompt.too_long",
        "> 200000 maximum",
        request(model=OLDER, system="a" * 400_000, messages=[user("a" * 400_000)]),
        request(model=HAIKU, system="a" * 400_000, messages=[user("a" * 399_900)]),
    ),
]
EXAMPLES = (*HTTP, *OPTIONS, *FORMATS, *CHOICES, *SERVER_TOOLS, *MESSAGES, *THINKING, *replays(), *CACHING, *TOO_LONG)
