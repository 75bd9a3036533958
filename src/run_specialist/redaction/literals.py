"""Distinguish literal secrets from placeholders, types and expressions in program code."""

import re

_PLACEHOLDER = re.compile(
    r"""(?xi) \s* (?: \$[{(] .* | \$[a-z_]\w* | \{ .* | %[({]?\w{0,40}[)}]?[sdr]? | %\w+% | [<\[(] .*
    | [x*_.•?-]{2,} | .* (?: \.\.\. | … | \[redacted\] ) .* | (?: your|insert|enter|replace|put )[-_ ].* | .* [-_ ]here
    | changethis | placeholder | dummy | redacted )? \s*""",
    re.DOTALL,
)
_WORDS = frozenset(
    [
        "none",
        "null",
        "nil",
        "undefined",
        "true",
        "false",
        "yes",
        "no",
        "on",
        "off",
        "required",
        "optional",
        "inherit",
        "include",
        "omit",
        "same-origin",
        "default",
        "auto",
        "unset",
        "empty",
        "todo",
        "tbd",
        "n/a",
        "na",
        "write",
        "read",
        "readonly",
        "hidden",
        "string",
        "str",
        "text",
        "bytes",
        "bytearray",
        "int",
        "integer",
        "bool",
        "boolean",
        "float",
        "number",
        "any",
        "object",
        "void",
        "unknown",
        "never",
        "char",
        "varchar",
        "secretstr",
    ]
)
_TYPE = re.compile(
    r"(?:[A-Z][A-Za-z]*)?(?:Password|Passphrase|Secret|Token|Key|Credential)[A-Za-z]*\??"
    r"|(?:[A-Z][a-z]+)*(?:Str|String|Bytes|Type|Field|Model|Enum|Input|Value|Hash|Id|Config|Settings|Options?|Any"
    r"|Callable|Sequence|Iterable|Path|Self|Kind)\??"
)
_EXPRESSION = re.compile(
    r"-?[A-Za-z_$@][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_][\w$]*)*(?:[(\[].*)?[!?]?(?:[*+/%]-?[A-Za-z_]\w{0,20})?"
)
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9._~+/-]{16,}={0,3}")
_NAME = r"(?:[a-z_][a-z0-9_]{0,31}|[A-Z_]{1,31}|[A-Za-z]?[a-z]{1,31}(?:[A-Z][a-z0-9]{1,31}){0,6})"
_PATH_OF_NAMES = re.compile(rf"{_NAME}(?:[./-]{_NAME})+")
_LONG = 16
"""Length from which a path component with a digit is not considered a word [characters]."""
_MIXED = re.compile(r"\d[A-Za-z]|[A-Za-z]\d")


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: empty, `${VARIABLE}`, `<token>`, `***`, `sk-...`, `your-key`."""
    return _PLACEHOLDER.fullmatch(value[:1_000]) is not None


def is_type(value: str) -> bool:
    """Return whether a value is a type or a keyword such as `required`, not a secret."""
    return value.rstrip("?!").casefold() in _WORDS or _TYPE.fullmatch(value) is not None


def is_expression(value: str) -> bool:
    """Return whether a word may be a variable, an attribute or a call in program code."""
    return _EXPRESSION.fullmatch(value) is not None


def is_token_like(value: str) -> bool:
    """Return whether a value looks generated: long, with mixed digits and letters, not a path of names."""
    if not _TOKEN_LIKE.fullmatch(value) or not any(letter.isdigit() for letter in value):
        return False
    return bool(_MIXED.search(value)) and not (_PATH_OF_NAMES.fullmatch(value) and not _has_long_part(value))


def _has_long_part(value: str) -> bool:
    return any(len(part) >= _LONG and any(letter.isdigit() for letter in part) for part in re.split(r"[./_-]", value))


def is_path(value: str) -> bool:
    """Return whether a value is a file path or a URL."""
    return _PATH.fullmatch(value) is not None or "://" in value


_PATH = re.compile(r"(?:~|\.{1,2})?/[a-z0-9_./-]*|[\w./-]+\.(?:pem|key|crt|pub|json|ya?ml|txt|toml|env|asc|gpg|md|py)")
