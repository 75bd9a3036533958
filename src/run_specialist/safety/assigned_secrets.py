"""Find the values of passwords, tokens and keys that are assigned to a name.

Covers environment files, shells, YAML, JSON, INI, XML, connection strings, URLs, `.netrc`, command lines and literals
in program code. Expressions, types, placeholders and prose are not masked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum

from run_specialist.safety.credentials import NUMBERED, TextSpan

NAME_ENDINGS = ("password", "passwd", "passphrase", "pwd", "_pass", "secret", "credential", "token", "key", "_auth")
"""Endings of the names of secrets in lower case, before a suffix such as `_2` or `_PROD`."""


class Secrecy(Enum):
    """How secret a value is, by its name."""

    PASSWORD = "password"  # noqa: S105 - not a password
    """Any literal is secret, of any length."""
    SECRET = "secret"  # noqa: S105 - as above
    """Any literal without blanks is secret, unless it is a name or a path."""
    PERHAPS = "perhaps"
    """An ambiguous name: its value is secret in an environment file, or if it looks like a token."""


_PASSWORD = re.compile(r"(?:password|passwd|passphrase|pwd|_pass)$")
_SECRET = re.compile(
    r"""(?x) (?: secret | credential
    | (?: api | access | admin | aes | account | auth | consumer | deploy | encryption | fernet | hmac | jwt | license
        | master | private | secret | security | service | shared | signing | storage | subscription | webhook
      ) [_.-]? key
    | (?: access | admin | api | auth | bearer | bot | client | deploy | device | gh | github | gitlab | hf | jwt
        | login | npm | oauth2? | personal | private | pypi | refresh | registry | secret | security | service | session
        | slack | upload | user | vault | webhook
      ) [_.-]? token )$"""
)
_HARMLESS = re.compile(
    r"""(?x) (?: ^(?:old)?pwd | ^accesskey
    | (?: bucket | cache | dedup | foreign | group | hash | hot | i18n | idempotency | idx | index | lookup | message
        | natural | object | parent | partition | primary | pub | public | range | routing | schema | sequence | shard
        | sort | state | translation | unique
      ) [_.-]? key
    | (?: bos | csrf | end | eos | id | mask | next | next_page | page | pad | sep | start | stop | unk | xsrf
      ) [_.-]? token )$"""
)


def kind_of(name: str) -> Secrecy | None:
    """Return how secret the value of a name is; None if it is not secret.

    name: an identifier or a dotted path, in any case, without a suffix such as `_2`.
    """
    lower = name.lower()
    if _HARMLESS.search(lower):
        return None
    if _PASSWORD.search(lower):
        return Secrecy.PASSWORD
    if _SECRET.search(lower):
        return Secrecy.SECRET
    # `key` alone is too ambiguous.
    perhaps = lower.endswith(("token", "_auth")) or (lower.endswith("_key") and name.isupper())
    return Secrecy.PERHAPS if perhaps else None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LONGEST_NAME = 48


def ends_like_a_name(value: str) -> bool:
    """Return whether a value is itself the name of a secret: of a variable, a header, a field."""
    return len(value) <= _LONGEST_NAME and value.lower().endswith(NAME_ENDINGS) and _NAME.fullmatch(value) is not None


_LONGEST_KEY = 64
_LONGEST_HEAD = 250
"""Length of the text before a name that is examined [characters]."""

SUFFIX = r"(?:[_-]?(?:\d{1,2}|base|prod|production|dev|test|staging|live|old|new))?"
"""Matches an optional suffix after the last word of a name."""
_OPERATOR = re.compile(
    rf"""(?xi) {SUFFIX} (?P<close> [\\"'`\]*]{{0,4}} ) (?P<before> [ \t]{{0,20}} (?: \\\r?\n [ \t]{{0,20}} )? )
    (?P<operator> := | => | \?= | !==? | ={{1,3}} | >
      | : [ ]{{0,4}} [a-z_][\w.]{{0,40}} (?: \[ [^\]\n=]{{0,40}} \] )? \??  (?: [ ]?\|[ ]? [a-z_][\w.]{{0,40}} )?
          [ \t]{{0,4}} = (?!=)
      | : (?![:=]) )
    (?P<after> [ \t]{{0,20}}
      (?: \\\r?\n [ \t]{{0,40}} | [|>][+-]? [ \t]{{0,4}} \r?\n {NUMBERED} [ \t]{{1,40}}
        | \r?\n [ \t]{{0,40}} (?= ["'] ) )? )"""
)
_LINE_START = re.compile(
    rf"""{NUMBERED}[ \t]*(?:[-+>$][ \t]|export |set |env |ENV |ARG |declare -x |//\S{{1,200}}?:)*["']?"""
)
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z)")


@dataclass(frozen=True, slots=True)
class ValueSpan:
    """The position of a value, with the text before it."""

    text: str
    name: str
    kind: Secrecy
    head: str
    """Text before the name on its line."""
    operator: str
    tight: bool
    """True if there are no blanks around the operator."""
    quoted: bool
    """True if the name is in quotes."""
    at: int
    """Start of the value."""

    @property
    def starts_line(self) -> bool:
        """True if only a line number, a dash, a quote or a keyword such as `export` precedes the name."""
        return _LINE_START.fullmatch(self.head) is not None

    @property
    def is_environment(self) -> bool:
        """True if the assignment looks like one in a shell or an environment file."""
        return self.name.isupper() and (
            (self.operator == "=" and self.tight) or (self.operator == ":" and self.starts_line)
        )

    def ends_line(self, end: int) -> bool:
        """Return whether at most a comment follows on the line."""
        return _REST_OF_LINE.match(self.text, end) is not None


def place_of(text: str, start: int, end: int) -> ValueSpan | None:
    """Return the value assigned to a name of a secret; None if the name is harmless or nothing is assigned.

    start, end: span of the word that ends the name, such as `token`.
    """
    found = _OPERATOR.match(text, end)
    head = text[max(0, start - _LONGEST_KEY) : start]
    begun = start - (len(head) - len(head.rstrip(_OF_NAMES)))
    name = text[begun:end]
    kind = kind_of(name)
    if found is None or kind is None:
        return None
    line = text.rfind("\n", max(0, begun - _LONGEST_HEAD), begun) + 1
    head = text[max(line, begun - _LONGEST_HEAD) : begun]
    tight = not found["before"] and not found["after"]
    operator = "=" if found["operator"].startswith(":") and found["operator"].endswith("=") else found["operator"]
    quoted = found["close"] != ""
    return ValueSpan(text, name, kind, head, operator, tight, quoted, found.end())


_OF_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."


_ANCHORS = tuple(
    # Each pattern starts with literal letters, for which `re` searches fastest.
    re.compile(rf"{word}(?={SUFFIX}[\\\"'`\]*]{{0,4}}[ \t]{{0,20}}(?:[:=>?!]|\\\r?\n))")
    for word in (
        "pass(?:word|wd|phrase|(?<=_pass))",
        "pwd(?<![a-z]pwd)",
        "secret",
        "credentials?",
        "token",
        "key",
        "_auth",
    )
)
_FLAG = re.compile(
    r"""--(?=[a-z])[a-z-]{0,40}(?:password|passwd|passphrase|secret|token|api-?key|access-key)"""
    r"""[ \t]+["']?(?![-$<{\[%])([^\s"'`]{4,})"""
)
_NETRC = re.compile(
    rf"""(?xm) (?: (?: \bmachine\s{{1,40}}\S{{1,200}} | ^default ) \s{{1,40}} {NUMBERED} \s{{0,40}}
      login\s{{1,40}}\S{{1,200}}\s{{1,40}} {NUMBERED} \s{{0,40}}
    | \bnetrc[:-]\d{{1,7}}[:-][ \t]{{1,40}} ) password\s{{1,40}}(\S+)"""
)


def assigned(text: str, lower: str) -> Iterator[TextSpan]:
    """Yield the spans of assigned secrets in a text.

    lower: the text in lower case, with the same offsets.
    """
    flags = (found for found in _FLAG.finditer(text if "--" in text else "") if not found[1].isalpha())
    netrc = _NETRC.finditer(text if "login" in text or "netrc" in text else "")
    yield from (found.span(1) for found in (*flags, *netrc) if not is_placeholder(found[1]))
    for anchor in _ANCHORS:
        done = 0
        for word in anchor.finditer(lower):
            if word.start() >= done and (place := place_of(text, word.start(), word.end())) and (span := _value(place)):
                yield span
                done = span[1]


def _value(place: ValueSpan) -> TextSpan | None:
    """Return the span of the value; None if it is not a literal or not secret."""
    if place.operator == ">":
        # The text of an XML element.
        end = place.text.find("</", place.at, place.at + 1_000)
        value = place.text[place.at : end]
        if not place.head.endswith("<") or end < 0 or not value or not value.split() or "<" in value:
            return None
        return None if is_placeholder(value) or is_type(value) else (place.at, end)
    if place.operator.startswith(("!", "==")) and place.kind is not Secrecy.PASSWORD:
        return None
    quote = QUOTE.match(place.text, place.at)
    return quoted(place, quote) if quote else unquoted(place)


_PLACEHOLDER = re.compile(
    r"""(?xi) \s* (?: \$[{(] .* | \$[a-z_]\w* | \{ .* | %[({]?\w{0,40}[)}]?[sdr]? | %\w+% | [<\[(] .*
    | [x*_.•?-]{2,} | .* (?: \.\.\. | … | \[redacted\] ) .* | (?: your|insert|enter|replace|put )[-_ ].* | .* [-_ ]here
    | changethis | placeholder | dummy | redacted )? \s*""",
    re.DOTALL,
)
_WORDS = re.compile(
    r"""(?x) none | null | nil | undefined | true | false | yes | no | on | off | required | optional | inherit |
      include | omit | same-origin | default | auto | unset | empty | todo | tbd | n/a | na | write | read |
      readonly | hidden | string | str | text | bytes | bytearray | int | integer | bool | boolean | float | number
      | any | object | void | unknown | never | char | varchar | secretstr"""
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
_IDENTIFIER = r"(?:[a-z_][a-z0-9_]{0,31}|[A-Z_]{1,31}|[A-Za-z]?[a-z]{1,31}(?:[A-Z][a-z0-9]{1,31}){0,6})"
_PATH_OF_NAMES = re.compile(rf"{_IDENTIFIER}(?:[./-]{_IDENTIFIER})+")
_LONG = 16
"""Length from which a path component with a digit is not considered a word [characters]."""
_MIXED = re.compile(r"\d[A-Za-z]|[A-Za-z]\d")


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder: empty, `${VARIABLE}`, `<token>`, `***`, `sk-...`, `your-key`."""
    return _PLACEHOLDER.fullmatch(value[:1_000]) is not None


def is_type(value: str) -> bool:
    """Return whether a value is a type or a keyword such as `required`, not a secret."""
    return _WORDS.fullmatch(value.rstrip("?!").casefold()) is not None or _TYPE.fullmatch(value) is not None


def is_expression(value: str) -> bool:
    """Return whether a word may be a variable, an attribute or a call in program code."""
    return _EXPRESSION.fullmatch(value) is not None


def is_token_like(value: str) -> bool:
    """Return whether a value looks generated: long, with mixed digits and letters, not a path of names."""
    if not _TOKEN_LIKE.fullmatch(value) or not any(letter.isdigit() for letter in value):
        return False
    parts = re.split(r"[./_-]", value)
    has_long_part = any(len(part) >= _LONG and any(letter.isdigit() for letter in part) for part in parts)
    return bool(_MIXED.search(value)) and (has_long_part or not _PATH_OF_NAMES.fullmatch(value))


def is_path(value: str) -> bool:
    """Return whether a value is a file path or a URL."""
    return _PATH.fullmatch(value) is not None or "://" in value


_PATH = re.compile(r"(?:~|\.{1,2})?/[a-z0-9_./-]*|[\w./-]+\.(?:pem|key|crt|pub|json|ya?ml|txt|toml|env|asc|gpg|md|py)")


_LEAST = 3
"""Minimum length of a key or token; shorter values are samples [characters]."""
_SAMPLES = {"test", "dummy", "fake", "example", "none-needed", "not-needed"}
QUOTE = re.compile(r"""(?i)(?P<kind>[bruf@$]{0,2})(?P<quote>\\{0,3}(?:"{3}|'{3}|["'`]))""")


def quoted(place: ValueSpan, quote: re.Match[str]) -> TextSpan | None:
    """Return the span of the literal after an opening quote; None if it is not a secret."""
    if _closes(place, quote):
        return None
    start, end = quote.end(), _end_of_quote(place.text, quote.end(), quote["quote"])
    value = place.text[start:end]
    if "\n" in value and len(quote["quote"]) > 1:
        # A document, which may contain other names and values.
        return None
    formatted = "%s" in value or (
        "{" in value and ("f" in quote["kind"].lower() or "${" in value or "#{" in value or quote["quote"] == "`")
    )
    if formatted or is_placeholder(value) or is_type(value):
        return None
    # A value that repeats its name, as in constants and word lists.
    name, parts = place.name.lower(), place.name.lower().rpartition(".")[2].split("_")
    if _JOINTS.sub("", value.lower()) in {_JOINTS.sub("", name), "".join(parts), parts[-1]}:
        return None
    return (start, end) if _is_secret_literal(place, value) else None


def _closes(place: ValueSpan, quote: re.Match[str]) -> bool:
    """Return whether a quote closes the string that contains the name, as in `getpass("Password: ")`."""
    follows = place.text[quote.end() : quote.end() + 1]
    if place.quoted or (follows and follows in "),;]}"):
        return not place.quoted
    return place.head.count(quote["quote"]) % 2 == 1 and (not follows or follows in ":\r\n ")


def _is_secret_literal(place: ValueSpan, value: str) -> bool:
    blank = bool(value.split()[1:]) or value != value.strip()
    if place.kind is Secrecy.PASSWORD:
        if blank:
            # A label, such as `"password": "Your password"`.
            return (
                not ends_like_a_name(value.rstrip(" :.?!"))
                and (place.operator == "=" or any(letter.isdigit() for letter in value))
                and not value.rstrip().endswith((".", ":", "?"))
            )
        return not (value.isupper() and "_" in value and ends_like_a_name(value)) and _ALNUM.search(value) is not None
    if blank or len(value) < _LEAST or value in _SAMPLES or ends_like_a_name(value) or is_path(value):
        return False
    return place.kind is Secrecy.SECRET or place.is_environment or is_token_like(value)


_ALNUM = re.compile(r"\w")
_JOINTS = re.compile(r"[\s_.-]+")


def _end_of_quote(text: str, start: int, quote: str) -> int:
    """Return the end of a quoted text: before the closing quote, or at the end of the line if there is none."""
    at = start
    while True:
        close = text.find(quote, at)
        line = text.find("\n", at, close if close >= 0 else len(text)) if len(quote.lstrip("\\")) == 1 else -1
        if line >= 0 and text[line - 1] != "\\":
            return line - (text[line - 1] == "\r")
        if line >= 0:
            at = line + 1
            continue
        if close < 0:
            return len(text)
        escapes = close - len(text[start:close].rstrip("\\")) - start
        if escapes % 2 == 0 or quote.startswith("\\"):
            return close
        at = close + 1


_NUMBER = 4
"""Minimum number of digits of a numeric password; shorter numbers are lengths or counts."""
_SHORT = 6
"""Minimum length of a password in code and prose; shorter words with a digit are mostly variables [characters]."""
_WORD = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]{1,300}""")
_UNSPACED = re.compile(r"""[^\s"'`]{1,300}""")
_VALUE = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]*""")
"""Matches the rest of a long word; used only once its start is known to be secret."""


def unquoted(place: ValueSpan) -> TextSpan | None:
    """Return the span of an unquoted value; None if it is not a secret."""
    shell = place.is_environment and place.tight and place.starts_line
    found = (_UNSPACED if shell else _WORD).match(place.text, place.at)
    if found is None:
        return None
    value, end = found[0], found.end()
    if (
        is_placeholder(value)
        or is_type(value)
        or place.text.startswith(("(", "[", "{"), end)
        or (shell and _CALL.match(value))
    ):
        return None
    if not _is_secret_word(place, value.rstrip(".:\\"), end):
        return None
    if rest := _VALUE.match(place.text, end):
        end = rest.end()
    if rest := _CONTINUED.match(place.text, end):
        end = rest.end()
    return place.at, end - (len(value) - len(value.rstrip(".:")))


_CALL = re.compile(r"[\w.]+[(\[]")
_CONTINUED = re.compile(r"""(?:(?<=\\)\r?\n[ \t]{0,40}[^\s"'`]+)+""")


def _is_secret_word(place: ValueSpan, value: str, end: int) -> bool:
    """Return whether an unquoted value is a secret, not a variable, a type or prose."""
    if value.isdigit():
        return place.kind is Secrecy.PASSWORD and len(value) >= _NUMBER
    if place.kind is not Secrecy.PASSWORD and (ends_like_a_name(value) or is_path(value)):
        return False
    if place.is_environment:
        if place.operator == ":":
            return place.ends_line(end)
        return place.head.rstrip()[-1:] not in {",", "("} or not is_expression(value)
    before = place.head[-1:]
    if before in {"?", "&", "="} and place.operator == "=" and place.tight:
        return len(value) >= _NUMBER
    if place.kind is not Secrecy.PERHAPS and _is_configuration(place, end):
        return not (is_expression(value) and ends_like_a_name(value))
    if is_token_like(value):
        return True
    if place.kind is not Secrecy.PASSWORD or len(value) < _SHORT:
        return False
    # What cannot be the name of a variable.
    return (any(letter.isdigit() for letter in value) and not is_expression(value)) or _ODD.search(value) is not None


def _is_configuration(place: ValueSpan, end: int) -> bool:
    """Return whether the value is in YAML, an INI file or a connection string, where a word is always a literal."""
    if place.ends_line(end) and place.starts_line:
        spaced = place.operator == ":" and place.text[place.at - 1 : place.at] in {" ", "\t"}
        return spaced or (place.operator == "=" and place.tight and place.head.strip(" \t") == place.head)
    if place.operator != "=" or not place.tight or (place.kind is not Secrecy.PASSWORD and not place.name[0].isupper()):
        return False
    after, previous = place.text[end : end + 1], place.head.rstrip()[-1:]
    if after == ";" or place.head.endswith(";"):
        return place.name[0].isupper() or "=" in place.head
    return (
        place.head.endswith(" ")
        and previous not in {"", ",", "("}
        and after in {"", " ", "\n", '"', "'"}
        and ("=" in place.head)
    )


_ODD = re.compile(r"[!@#%^*~?]|^[A-Za-z]{3,}\d+$")
