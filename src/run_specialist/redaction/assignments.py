"""Find the values of passwords, tokens and keys that are assigned to a name, and leave code and prose alone.

Environment files, shells, YAML, JSON, INI, XML, connection strings, URLs, `.netrc`, command lines and literals in
program code have a value; an expression, a type, a placeholder and a sentence are none.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from run_specialist.redaction.literals import is_expression, is_placeholder, is_token_like, is_type
from run_specialist.redaction.mask import Span
from run_specialist.redaction.names import Kind, ends_like_a_name, kind_of
from run_specialist.redaction.numbered import NUMBERED

_LONGEST_NAME = 64
_LONGEST_HEAD = 250
"""How much of a line before a name is looked at [characters]."""
_NUMBER = 4
"""A number of fewer digits is a length or a count, not a password."""
_SHORT = 6
"""In code and prose a shorter word with a digit is more often a variable than a password [characters]."""

_LEAST = 3
"""A key or token of fewer characters is a sample, or no key."""
_SAMPLES = {"test", "dummy", "fake", "example", "none-needed", "not-needed"}

_SUFFIX = r"(?:[_-]?(?:\d{1,2}|base|prod|production|dev|test|staging|live|old|new))?"
_ANCHORS = tuple(
    # The first letters as they are: `re` is fastest at looking for these.
    re.compile(rf"{word}(?={_SUFFIX}[\\\"'`\]*]{{0,4}}[ \t]{{0,20}}(?:[:=>?!]|\\\r?\n))")
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
_QUOTE = re.compile(r"""(?i)(?P<kind>[bruf@$]{0,2})(?P<quote>\\{0,3}(?:"{3}|'{3}|["'`]))""")
_WORD = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]{1,300}""")
_UNSPACED = re.compile(r"""[^\s"'`]{1,300}""")
_LONG = re.compile(r"""[^\s"'`,;<>(){}\[\]|&]*""")
"""What is left of a word that is longer: no more is looked at before it is known to be secret."""
_LINE_START = re.compile(
    rf"""{NUMBERED}[ \t]*(?:[-+>$][ \t]|export |set |env |ENV |ARG |declare -x |//\S{{1,200}}?:)*["']?"""
)
_REST_OF_LINE = re.compile(r"[ \t]*(?:#[^\n]*)?(?=\r?\n|\Z)")
_FLAG = re.compile(
    r"""--(?=[a-z])[a-z-]{0,40}(?:password|passwd|passphrase|secret|token|api-?key|access-key)[ \t]+["']?(?![-$<{\[%])([^\s"'`]{4,})"""
)
_NETRC = re.compile(
    rf"""(?xm) (?: (?: \bmachine\s{{1,40}}\S{{1,200}} | ^default ) \s{{1,40}} {NUMBERED} \s{{0,40}}
      login\s{{1,40}}\S{{1,200}}\s{{1,40}} {NUMBERED} \s{{0,40}}
    | \bnetrc[:-]\d{{1,7}}[:-][ \t]{{1,40}} ) password\s{{1,40}}(\S+)"""
)


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a value stands, and what is known of it from what stands before it."""

    text: str
    name: str
    kind: Kind
    head: str
    """What stands before the name on its line."""
    operator: str
    tight: bool
    """Whether no blank stands around the operator."""
    quoted: bool
    """Whether the name stands in quotes of its own."""
    at: int
    """Where the value begins."""

    @property
    def starts_line(self) -> bool:
        return _LINE_START.fullmatch(self.head) is not None

    @property
    def is_environment(self) -> bool:
        """Whether it is written as a variable of a shell or an environment file is."""
        return self.name.isupper() and (
            (self.operator == "=" and self.tight) or (self.operator == ":" and self.starts_line)
        )

    def ends_line(self, end: int) -> bool:
        return _REST_OF_LINE.match(self.text, end) is not None


def assigned(text: str, lower: str) -> Iterator[Span]:
    """Yield where values of secrets stand in a text.

    lower: the text in lower case, letter by letter.
    """
    yield from (found.span(1) for found in _flags_and_netrc(text) if not is_placeholder(found[1]))
    for anchor in _ANCHORS:
        done = 0
        for word in anchor.finditer(lower):
            if word.start() >= done and (place := _place(text, word.start(), word.end())) and (span := _value(place)):
                yield span
                done = span[1]


def _flags_and_netrc(text: str) -> Iterator[re.Match[str]]:
    if "--" in text:
        yield from (found for found in _FLAG.finditer(text) if not found[1].isalpha())
    if "login" in text or "netrc" in text:
        yield from _NETRC.finditer(text)


def _place(text: str, start: int, end: int) -> _Place | None:
    """Return what is known of a name that ends in a word of secrecy; None where nothing is assigned to it."""
    found = _OPERATOR.match(text, end)
    head = text[max(0, start - _LONGEST_NAME) : start]
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
    return _Place(text, name, kind, head, operator, tight, quoted, found.end())


_OF_NAMES = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-."


def _value(place: _Place) -> Span | None:
    """Return where the value stands; None where it is no literal, or not secret."""
    if place.operator == ">":
        return _element(place)
    if place.operator.startswith(("!", "==")) and place.kind is not Kind.PASSWORD:
        return None
    quote = _QUOTE.match(place.text, place.at)
    return _quoted(place, quote) if quote else _bare(place)


def _element(place: _Place) -> Span | None:
    """Return the text of an XML element."""
    end = place.text.find("</", place.at, place.at + 1_000)
    value = place.text[place.at : end]
    if not place.head.endswith("<") or end < 0 or not value or not value.split() or "<" in value:
        return None
    return None if is_placeholder(value) or is_type(value) else (place.at, end)


def _quoted(place: _Place, quote: re.Match[str]) -> Span | None:
    if _closes(place, quote):
        return None
    start, end = quote.end(), _end_of_quote(place.text, quote.end(), quote["quote"])
    value = place.text[start:end]
    if "\n" in value and len(quote["quote"]) > 1:
        # A whole document, in which other names and values may stand.
        return None
    formatted = "%s" in value or (
        "{" in value and ("f" in quote["kind"].lower() or "${" in value or "#{" in value or quote["quote"] == "`")
    )
    if formatted or is_placeholder(value) or is_type(value) or _repeats(place.name, value):
        return None
    return (start, end) if _is_secret_literal(place, value) else None


def _closes(place: _Place, quote: re.Match[str]) -> bool:
    """Tell whether a quote ends the text that the name stands in, as in `getpass("Password: ")`."""
    follows = place.text[quote.end() : quote.end() + 1]
    if place.quoted or (follows and follows in "),;]}"):
        return not place.quoted
    return place.head.count(quote["quote"]) % 2 == 1 and (not follows or follows in ":\r\n ")


def _is_secret_literal(place: _Place, value: str) -> bool:
    blank = bool(value.split()[1:]) or value != value.strip()
    if place.kind is Kind.PASSWORD:
        if blank:
            # A label, such as `"password": "Your password"`.
            return (
                not ends_like_a_name(value.rstrip(" :.?!"))
                and (place.operator == "=" or any(letter.isdigit() for letter in value))
                and not value.rstrip().endswith((".", ":", "?"))
            )
        return not (value.isupper() and "_" in value and ends_like_a_name(value)) and _ALNUM.search(value) is not None
    if blank or len(value) < _LEAST or value in _SAMPLES or ends_like_a_name(value) or _is_path(value):
        return False
    return place.kind is Kind.SECRET or place.is_environment or is_token_like(value)


def _bare(place: _Place) -> Span | None:
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
    if rest := _LONG.match(place.text, end):
        end = rest.end()
    if rest := _CONTINUED.match(place.text, end):
        end = rest.end()
    return place.at, end - (len(value) - len(value.rstrip(".:")))


_CALL = re.compile(r"[\w.]+[(\[]")
_CONTINUED = re.compile(r"""(?:(?<=\\)\r?\n[ \t]{0,40}[^\s"'`]+)+""")


def _is_secret_word(place: _Place, value: str, end: int) -> bool:  # noqa: PLR0911 - one for each way of writing
    """Tell whether a word without quotes is a secret where it stands, and not a variable, a type or a sentence."""
    if value.isdigit():
        return place.kind is Kind.PASSWORD and len(value) >= _NUMBER
    if place.kind is not Kind.PASSWORD and (ends_like_a_name(value) or _is_path(value)):
        return False
    if place.is_environment:
        if place.operator == ":":
            return place.ends_line(end)
        return place.head.rstrip()[-1:] not in {",", "("} or not is_expression(value)
    before = place.head[-1:]
    if before in {"?", "&", "="} and place.operator == "=" and place.tight:
        return len(value) >= _NUMBER
    if place.kind is not Kind.PERHAPS and _is_configuration(place, end):
        return not (is_expression(value) and ends_like_a_name(value))
    if is_token_like(value):
        return True
    return place.kind is Kind.PASSWORD and len(value) >= _SHORT and _is_no_variable(value)


def _is_configuration(place: _Place, end: int) -> bool:
    """Tell whether a value stands as in YAML, an INI file, or a connection string, where a word is always a literal."""
    if place.ends_line(end) and place.starts_line:
        spaced = place.operator == ":" and place.text[place.at - 1 : place.at] in {" ", "\t"}
        return spaced or (place.operator == "=" and place.tight and place.head.strip(" \t") == place.head)
    if place.operator != "=" or not place.tight or (place.kind is not Kind.PASSWORD and not place.name[0].isupper()):
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


def _is_no_variable(value: str) -> bool:
    return (any(letter.isdigit() for letter in value) and not is_expression(value)) or _ODD.search(value) is not None


_ODD = re.compile(r"[!@#%^*~?]|^[A-Za-z]{3,}\d+$")


def _is_path(value: str) -> bool:
    return _PATH.fullmatch(value) is not None or "://" in value


_PATH = re.compile(r"(?:~|\.{1,2})?/[a-z0-9_./-]*|[\w./-]+\.(?:pem|key|crt|pub|json|ya?ml|txt|toml|env|asc|gpg|md|py)")


def _repeats(name: str, value: str) -> bool:
    """Tell whether a value only says its own name once more, as constants and tables of words do."""
    plain = _JOINTS.sub("", value.lower())
    parts = name.lower().rpartition(".")[2].split("_")
    return plain in {_JOINTS.sub("", name.lower()), "".join(parts), parts[-1]}


_ALNUM = re.compile(r"\w")
_JOINTS = re.compile(r"[\s_.-]+")


def _end_of_quote(text: str, start: int, quote: str) -> int:
    """Return where a quoted text ends: before its closing quote, or at the end of the line where there is none."""
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
