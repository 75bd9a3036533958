"""Find the values of passwords, tokens and keys that are assigned to a name.

Covers environment files, shells, YAML, JSON, INI, XML, connection strings, URLs, `.netrc`, command lines and literals
in program code. Expressions, types, placeholders and prose are not masked.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from run_specialist.safety.credentials import NUMBERED, TextSpan

# Endings of the names of secrets in lower case, before a suffix such as `_2` or `_PROD`.
_NAME_ENDINGS = ("password", "passwd", "passphrase", "pwd", "_pass", "secret", "credential", "token", "key", "_auth")

# How secret a value is by its name: any literal, of any length; any without blanks, unless it is a name or a path; only
# in an environment file, or if it looks like a token.
_Secrecy = Literal["password", "secret", "perhaps"]
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


def _secrecy_of(name: str) -> _Secrecy | None:
    """Return how secret the value of a name is, without its suffix such as `_2`; None if it is not secret."""
    lower = name.lower()
    if _HARMLESS.search(lower):
        return None
    if _PASSWORD.search(lower):
        return "password"
    if _SECRET.search(lower):
        return "secret"
    # `key` alone is too ambiguous.
    return "perhaps" if lower.endswith(("token", "_auth")) or (lower.endswith("_key") and name.isupper()) else None


_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*")
_LONGEST_NAME = 48


def ends_like_a_name(value: str) -> bool:
    """Return whether a value is itself the name of a secret: of a variable, a header, a field."""
    return len(value) <= _LONGEST_NAME and value.lower().endswith(_NAME_ENDINGS) and _NAME.fullmatch(value) is not None


_LONGEST_KEY = 64
# Length of the text before a name that is examined [characters].
_LONGEST_HEAD = 250

# Matches an optional suffix after the last word of a name.
_SUFFIX = r"(?:[_-]?(?:\d{1,2}|base|prod|production|dev|test|staging|live|old|new))?"
_OPERATOR = re.compile(
    rf"""(?xi) {_SUFFIX} (?P<close> [\\"'`\]*]{{0,4}} ) (?P<before> [ \t]{{0,20}} (?: \\\r?\n [ \t]{{0,20}} )? )
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
class _Place:
    """The position of a value, with the text before it."""

    text: str
    name: str
    kind: _Secrecy
    # Text before the name on its line.
    head: str
    operator: str
    # Whether there are no blanks around the operator.
    is_tight: bool
    # Whether the name is in quotes.
    is_quoted: bool
    # Start of the value.
    at: int

    @property
    def starts_line(self) -> bool:
        """Whether only a line number, a dash, a quote or a keyword such as `export` precedes the name."""
        return _LINE_START.fullmatch(self.head) is not None

    @property
    def is_environment(self) -> bool:
        """Whether the assignment looks like one in a shell or an environment file."""
        is_shell = self.operator == "=" and self.is_tight
        return self.name.isupper() and (is_shell or (self.operator == ":" and self.starts_line))


def _place_of(text: str, start: int, end: int) -> _Place | None:
    """Return the place of what is assigned to a name; None if the name is harmless or nothing is assigned.

    start, end: span of the word that ends the name, such as `token`.
    """
    found = _OPERATOR.match(text, end)
    head = text[max(0, start - _LONGEST_KEY) : start]
    begun = start - (len(head) - len(head.rstrip(_OF_NAMES)))
    name = text[begun:end]
    kind = _secrecy_of(name)
    if found is None or kind is None:
        return None
    line = text.rfind("\n", max(0, begun - _LONGEST_HEAD), begun) + 1
    head = text[max(line, begun - _LONGEST_HEAD) : begun]
    is_tight = not found["before"] and not found["after"]
    # With a type between them, `: str =` is `=`.
    operator = "=" if found["operator"].startswith(":") and found["operator"].endswith("=") else found["operator"]
    return _Place(text, name, kind, head, operator, is_tight, found["close"] != "", found.end())


_OF_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."


_ANCHORS = {
    # Each pattern starts with literal letters, for which `re` searches fastest, and `in` even faster.
    word[:3]: re.compile(rf"{word}(?={_SUFFIX}[\\\"'`\]*]{{0,4}}[ \t]{{0,20}}(?:[:=>?!]|\\\r?\n))")
    for word in (
        "pass(?:word|wd|phrase|(?<=_pass))",
        "pwd(?<![a-z]pwd)",
        "secret",
        "credentials?",
        "token",
        "key",
        "_auth",
    )
}
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
    yield from (found.span(1) for found in (*flags, *netrc) if not _PLACEHOLDER.fullmatch(found[1][:1_000]))
    for hint, anchor in _ANCHORS.items():
        done = 0
        for word in anchor.finditer(lower) if hint in lower else ():
            if word.start() >= done and (place := _place_of(text, *word.span())) and (span := _value(place)):
                yield span
                done = span[1]


def _value(place: _Place) -> TextSpan | None:
    """Return the span of the value; None if it is not a literal or not secret."""
    if place.operator == ">":
        # The text of an XML element.
        end = place.text.find("</", place.at, place.at + 1_000)
        value = place.text[place.at : end]
        is_element = place.head.endswith("<") and end >= 0 and "<" not in value
        return (place.at, end) if is_element and value.strip() and not _is_no_literal(value) else None
    if place.operator.startswith(("!", "==")) and place.kind != "password":
        return None
    quote = _QUOTE.match(place.text, place.at)
    return _quoted(place, quote) if quote else _unquoted(place)


_PLACEHOLDER = re.compile(
    r"""(?xi) \s* (?: \$[{(] .* | \$[a-z_]\w* | \{ .* | %[({]?\w{0,40}[)}]?[sdr]? | %\w+% | [<\[(] .*
    | [x*_.•?-]{2,} | .* (?: \.\.\. | … | \[redacted\] ) .* | (?: your|insert|enter|replace|put )[-_ ].* | .* [-_ ]here
    | changethis | placeholder | dummy | redacted )? \s*""",
    re.DOTALL,
)
# Types and keywords, not secrets.
_TYPE = re.compile(
    r"""(?x) (?i: none | null | nil | undefined | true | false | yes | no | on | off | required | optional | inherit |
      include | omit | same-origin | default | auto | unset | empty | todo | tbd | n/a | na | write | read |
      readonly | hidden | string | str | text | bytes | bytearray | int | integer | bool | boolean | float | number
      | any | object | void | unknown | never | char | varchar | secretstr ) [?!]*
    | (?: [A-Z][A-Za-z]* )? (?: Password | Passphrase | Secret | Token | Key | Credential ) [A-Za-z]* \??
    | (?: [A-Z][a-z]+ )* (?: Str | String | Bytes | Type | Field | Model | Enum | Input | Value | Hash | Id | Config |
      Settings | Options? | Any | Callable | Sequence | Iterable | Path | Self | Kind ) \??"""
)
_EXPRESSION = re.compile(
    r"-?[A-Za-z_$@][\w$]*(?:(?:\.|->|::|\?\.)[A-Za-z_][\w$]*)*(?:[(\[].*)?[!?]?(?:[*+/%]-?[A-Za-z_]\w{0,20})?"
)
_TOKEN_LIKE = re.compile(r"[A-Za-z0-9._~+/-]{16,}={0,3}")
_IDENTIFIER = r"(?:[a-z_][a-z0-9_]{0,31}|[A-Z_]{1,31}|[A-Za-z]?[a-z]{1,31}(?:[A-Z][a-z0-9]{1,31}){0,6})"
_PATH_OF_NAMES = re.compile(rf"{_IDENTIFIER}(?:[./-]{_IDENTIFIER})+")
# Length from which a path component with a digit is not considered a word [characters].
_LONG = 16


def _is_no_literal(value: str) -> bool:
    """Return whether a value is a type or keyword, or a placeholder: empty, `${VARIABLE}`, `<token>`, `sk-...`."""
    return bool(_PLACEHOLDER.fullmatch(value[:1_000]) or _TYPE.fullmatch(value))


def _is_token_like(value: str) -> bool:
    """Return whether a value looks generated: long, with mixed digits and letters, not a path of names."""
    if not _TOKEN_LIKE.fullmatch(value) or not any(letter.isdigit() for letter in value):
        return False
    parts = re.split(r"[./_-]", value)
    has_long_part = any(len(part) >= _LONG and any(letter.isdigit() for letter in part) for part in parts)
    return bool(re.search(r"\d[A-Za-z]|[A-Za-z]\d", value)) and (has_long_part or not _PATH_OF_NAMES.fullmatch(value))


_PATH = re.compile(r"(?:~|\.{1,2})?/[a-z0-9_./-]*|[\w./-]+\.(?:pem|key|crt|pub|json|ya?ml|txt|toml|env|asc|gpg|md|py)")


def _is_name_or_path(value: str) -> bool:
    return ends_like_a_name(value) or "://" in value or _PATH.fullmatch(value) is not None


# Minimum length of a key or token; shorter values are samples [characters].
_LEAST = 3
_SAMPLES = {"test", "dummy", "fake", "example", "none-needed", "not-needed"}
_QUOTE = re.compile(r"""(?i)(?P<kind>[bruf@$]{0,2})(?P<quote>\\{0,3}(?:"{3}|'{3}|["'`]))""")
_ESCAPE, _OF_LINE = "\\", r"[^\n]"
_JOINTS = re.compile(r"[\s_.-]+")


def _quoted(place: _Place, quote: re.Match[str]) -> TextSpan | None:
    """Return the span of the literal after an opening quote; None if it is not a secret."""
    follows = place.text[quote.end() : quote.end() + 1]
    if not place.is_quoted and (
        (follows and follows in "),;]}")
        or (place.head.count(quote["quote"]) % 2 == 1 and (not follows or follows in ":\r\n "))
    ):
        # It closes the string that contains the name, as in `getpass("Password: ")`.
        return None
    mark = re.escape(quote["quote"])
    # Up to the closing quote, or the end of the line if there is none; possessive, as it is never matched anew.
    letter = f"(?!{mark}){'.' if len(quote['quote'].lstrip(_ESCAPE)) > 1 else _OF_LINE}"
    letters = letter if quote["quote"].startswith(_ESCAPE) else rf"\\.|{letter}"
    found = re.compile(f"(?s:{letters})*+").match(place.text, quote.end())
    start, value = quote.end(), (found[0] if found else "").removesuffix("\r")
    if "\n" in value and len(quote["quote"]) > 1:
        # A document, which may contain other names and values.
        return None
    is_formatted = "%s" in value or (
        "{" in value and ("f" in quote["kind"].lower() or "${" in value or "#{" in value or quote["quote"] == "`")
    )
    if is_formatted or _is_no_literal(value):
        return None
    # A value that repeats its name, as in constants and word lists.
    name, parts = place.name.lower(), place.name.lower().rpartition(".")[2].split("_")
    if _JOINTS.sub("", value.lower()) in {_JOINTS.sub("", name), "".join(parts), parts[-1]}:
        return None
    is_blank = bool(value.split()[1:]) or value != value.strip()
    if place.kind == "password" and is_blank:
        # A label, such as `"password": "Your password"`.
        is_secret = (
            not ends_like_a_name(value.rstrip(" :.?!"))
            and (place.operator == "=" or any(letter.isdigit() for letter in value))
            and not value.rstrip().endswith((".", ":", "?"))
        )
    elif place.kind == "password":
        is_constant = value.isupper() and "_" in value and ends_like_a_name(value)
        is_secret = not is_constant and re.search(r"\w", value) is not None
    else:
        is_sample = is_blank or len(value) < _LEAST or value in _SAMPLES or _is_name_or_path(value)
        is_secret = not is_sample and (place.kind == "secret" or place.is_environment or _is_token_like(value))
    return (start, start + len(value)) if is_secret else None


# Minimum number of digits of a numeric password; shorter numbers are lengths or counts.
_NUMBER = 4
# Minimum length of a password in code and prose; shorter words with a digit are mostly variables [characters].
_SHORT = 6
_WORD = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]{1,300}""")
_UNSPACED = re.compile(r"""[^\s"'`]{1,300}""")
# Matches the rest of a long word; used only once its start is known to be secret.
_VALUE = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]*""")


def _unquoted(place: _Place) -> TextSpan | None:
    """Return the span of an unquoted value; None if it is not a secret."""
    is_shell = place.is_environment and place.is_tight and place.starts_line
    found = (_UNSPACED if is_shell else _WORD).match(place.text, place.at)
    if found is None:
        return None
    value, end = found[0], found.end()
    is_call = place.text.startswith(("(", "[", "{"), end) or (is_shell and _CALL.match(value))
    if is_call or _is_no_literal(value) or not _is_secret_word(place, value.rstrip(".:\\"), end):
        return None
    for rest in (_VALUE, _CONTINUED):
        if found := rest.match(place.text, end):
            end = found.end()
    return place.at, end - (len(value) - len(value.rstrip(".:")))


_CALL = re.compile(r"[\w.]+[(\[]")
_CONTINUED = re.compile(r"""(?:(?<=\\)\r?\n[ \t]{0,40}[^\s"'`]+)+""")
_ODD = re.compile(r"[!@#%^*~?]|^[A-Za-z]{3,}\d+$")


def _is_secret_word(place: _Place, value: str, end: int) -> bool:
    """Return whether an unquoted value is a secret, not a variable, a type or prose."""
    is_password = place.kind == "password"
    if value.isdigit():
        return is_password and len(value) >= _NUMBER
    if not is_password and _is_name_or_path(value):
        return False
    ends_line = _REST_OF_LINE.match(place.text, end) is not None
    after, previous = place.text[end : end + 1], place.head.rstrip()[-1:]
    if place.is_environment:
        is_literal = previous not in {",", "("} or not _EXPRESSION.fullmatch(value)
        return ends_line if place.operator == ":" else is_literal
    is_setting = place.operator == "=" and place.is_tight
    if place.head[-1:] in {"?", "&", "="} and is_setting:
        return len(value) >= _NUMBER
    # In YAML, an INI file or a connection string a word is always a literal.
    if ends_line and place.starts_line:
        is_spaced = place.operator == ":" and place.text[place.at - 1 : place.at] in {" ", "\t"}
        is_literal = is_spaced or (is_setting and place.head.strip(" \t") == place.head)
    else:
        is_named, is_part = place.name[0].isupper(), "=" in place.head
        if ";" in {after, place.head[-1:]}:
            is_part = is_part or is_named
        else:
            is_apart = place.head[-1:] == " " and previous not in {",", "("} and after in {"", " ", "\n", '"', "'"}
            is_part = is_part and is_apart
        is_literal = is_setting and (is_password or is_named) and is_part
    if is_literal and place.kind != "perhaps":
        return not (_EXPRESSION.fullmatch(value) and ends_like_a_name(value))
    if _is_token_like(value):
        return True
    if not is_password or len(value) < _SHORT:
        return False
    # What cannot be the name of a variable.
    has_digit = any(letter.isdigit() for letter in value)
    return (has_digit and not _EXPRESSION.fullmatch(value)) or _ODD.search(value) is not None
