"""Make the question of each item from a template and its input, and check all of them before the first is sent."""

import difflib
import hashlib
import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain

from run_specialist.batch.item import Input, InputRecord, Item
from run_specialist.batch.read_items import Source
from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

LONGEST_QUESTION = 10 * 1024**2
"""Maximum length of a question, as for a question on standard input [bytes of UTF-8]."""
_MOST_NAMED = 12
_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}\n]*)\}|[{}]")
_BRACES = {"{{": "{", "}}": "}"}


class Template:
    """A question with fields in braces, such as `What does {path} say?`; `{{` and `}}` are braces that are text.

    Every other character between braces belongs to the name of the field, so a column `Ticket ID` is `{Ticket ID}`.
    """

    def __init__(self, text: str) -> None:
        """Parse a template; raises UsageError if it is empty, a brace is not closed, or a field has no name."""
        if not text.strip():
            raise UsageError("the question is empty; ask something about each item")
        self.text = text
        self._parts: list[tuple[str, str | None]] = []
        end = 0
        for token in _TOKEN.finditer(text):
            before, end = text[end : token.start()], token.end()
            if token[0] in _BRACES:
                self._parts.append((before + _BRACES[token[0]], None))
            elif token[1] and token[1].strip():
                self._parts.append((before, token[1]))
            else:
                near = shown(text[token.start() : token.start() + 20])
                reason = (
                    f"the brace in {near!r} is unmatched; write a literal brace as {{{{ or }}}}"
                    if token[1] is None
                    else "a field has no name; write {item} for an item that is a text, else the name of a field"
                )
                raise UsageError(f"the question, character {token.start() + 1}: {reason}")
        self._parts.append((text[end:], None))
        self.fields = tuple(dict.fromkeys(name for _, name in self._parts if name is not None))
        """The names of the fields, in order."""

    def fill(self, given: Input, where: str) -> str:
        """Return the question of an item; braces in a value are text. Raises UsageError if a field is missing.

        where: the place of the item, with which an error begins.
        """
        fields = fields_of(given)
        for name in self.fields:
            if name not in fields:
                near = difflib.get_close_matches(name[:100], fields, 1, 0.5)
                listed = ", ".join(shown(one) for one in [*fields][:_MOST_NAMED]) or "no fields"
                hint = f"did you mean {{{shown(near[0])}}}?" if near else f"it has {listed}"
                raise UsageError(f"{where} has no field {shown(name)!r}, which the question needs; {hint}")
        return "".join(text if name is None else text + as_text(fields[name]) for text, name in self._parts)


def asked(inputs: Iterable[Input | InputRecord], template: Template | None) -> Iterator[Item]:
    """Yield each input as an item, with its question, number and key.

    The same input, question and file content have the same key in every call; equal ones get different keys, by how
    often they occurred before.
    template: None = each input is its question: a text, or the field `question`.
    Raises UsageError for an input that cannot be asked about.
    """
    seen: Counter[bytes] = Counter()
    for number, given in enumerate(inputs, 1):
        # JSON knows only real dictionaries.
        plain = dict(given) if isinstance(given, Mapping) else given
        one = plain if isinstance(plain, InputRecord) else InputRecord(plain)
        where, value = one.where or f"item {number}", one.input
        if problem := problem_of(value):
            raise UsageError(f"{where} {problem}")
        if template is not None:
            question: object = template.fill(value, where)
        else:
            question = value if isinstance(value, str) else value.get("question")
        if not isinstance(question, str) or not question.strip():
            raise UsageError(f"{where} has no question; give it a field `question`, or use a question template")
        if len(question.encode()) > LONGEST_QUESTION:
            limit = f"{LONGEST_QUESTION // 1024**2} MiB"
            raise UsageError(f"{where}: its question is longer than {limit}; shorten the item")
        digest = hashlib.sha256(json.dumps([value, question, one.content], sort_keys=True).encode()).digest()
        seen[digest[:8]] += 1
        if (count := seen[digest[:8]]) > 1:
            digest = hashlib.sha256(digest + str(count).encode()).digest()
        yield Item(number, value, question, digest[:8].hex())


@dataclass(frozen=True, slots=True)
class CheckedItems:
    """Items that have been read once and are valid; they are read again for each iteration."""

    source: Source
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError if the source has become invalid since."""
        return self.source.read()


def check(source: Source, template: Template | None) -> Iterable[InputRecord]:
    """Return the items of a source, checked as far as possible before anything is sent.

    All items are checked if they can be read twice; the result then has a length. Otherwise the first one is.
    template: None = each item is its question.
    Raises UsageError that names the first bad item.
    """
    items = source.read()
    first = next(items, None)
    if first is None:
        raise UsageError(f"{source.title} has no items")
    if template is not None and not template.fields:
        has = ", ".join(shown(name) for name in [*fields_of(first.input)][:_MOST_NAMED]) or "none"
        raise UsageError(
            f"the question {shown(template.text)!r} names no field, so it is the same for every item; put a field in "
            f"braces into it: {has}"
        )
    if source.is_repeatable:
        return CheckedItems(source, sum(1 for _ in asked(chain([first], items), template)))
    next(asked([first], template))
    return chain([first], items)


_LIMIT_SHOWN = 60
# A NUL as `json.dumps` writes it; after an even number of backslashes, else the text contains these characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")


def as_text(value: object) -> str:
    """Return the text of a value in a question: strings unchanged, other values as JSON."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def fields_of(given: Input) -> Mapping[str, object]:
    """Return the fields of an input; a text is the field `item`."""
    return given if isinstance(given, Mapping) else {"item": given}


def problem_of(given: object) -> str | None:
    """Return why an input cannot be used, as the end of a sentence; None if it can."""
    if not isinstance(given, str | Mapping):
        return f"must be an object or a string, got {type(given).__name__}"
    if isinstance(given, Mapping) and not all(isinstance(name, str) for name in given):
        return "has a field whose name is not a string"
    try:
        text = json.dumps(given, allow_nan=False, ensure_ascii=False)
        text.encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not a character; remove it"
    except (TypeError, ValueError) as error:
        return f"has a value that is not JSON: {str(error)[:_LIMIT_SHOWN]}"
    except RecursionError:
        return "is nested too deeply"
    return "contains a NUL character; remove it" if _NUL.search(text) else None
