"""Make the question of each item from a template and its input, and check all of them before the first is sent."""

import difflib
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import chain

from run_specialist.batch.item import Input, InputRecord, Item, keyed
from run_specialist.batch.read_items import Source
from run_specialist.errors import UsageError
from run_specialist.specialist.problems import shown

LONGEST_QUESTION = 10 * 1024**2
"""Maximum length of a question, as for a question on standard input [bytes of UTF-8]."""
_MOST_NAMED = 12
_NEAR = 0.5
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
                raise UsageError(f"{where} has no field {shown(name)!r}, which the question needs{_hint(name, fields)}")
        return "".join(text if name is None else text + as_text(fields[name]) for text, name in self._parts)


def _hint(name: str, fields: Mapping[str, object]) -> str:
    names = [*fields]
    near = difflib.get_close_matches(name[:100].strip().casefold(), {one.casefold(): one for one in names}, 1, _NEAR)
    if near:
        meant = next(one for one in names if one.casefold() == near[0])
        return f"; did you mean {{{shown(meant)}}}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(shown(one) for one in names[:_MOST_NAMED])
    return f"; it has {listed}{more}; write literal braces as {{{{ and }}}}" if listed else "; it has no fields"


def ask(given: InputRecord, template: Template | None, number: int) -> str:
    """Return the question about an input; raises UsageError with its place if it cannot be asked about.

    template: None = the input is its question: a text, or the field `question`.
    number: its position, which is named if it has no place.
    """
    where, value = given.where or f"item {number}", given.input
    if problem := problem_of(value):
        raise UsageError(f"{where} {problem}")
    question = fields_of(value).get("question") if template is None else template.fill(value, where)
    if template is None and isinstance(value, str):
        question = value
    if not isinstance(question, str) or not question.strip():
        raise UsageError(f"{where} has no question; give it a field `question`, or use a question template")
    if len(question) > LONGEST_QUESTION or len(question.encode()) > LONGEST_QUESTION:
        raise UsageError(f"{where}: its question is longer than {LONGEST_QUESTION // 1024**2} MiB; shorten the item")
    return question


def asked(inputs: Iterable[Input | InputRecord], template: Template | None) -> Iterator[Item]:
    """Yield each input as an item, with its question, number and key.

    template: None = each input is its question: a text, or the field `question`.
    Raises UsageError for an input that cannot be asked about.
    """

    def pairs() -> Iterator[tuple[InputRecord, str]]:
        for number, given in enumerate(inputs, 1):
            record = given
            if not isinstance(record, InputRecord):
                # JSON knows only real dictionaries.
                record = InputRecord(dict(record) if isinstance(record, Mapping) else record)
            yield record, ask(record, template, number)

    return keyed(pairs())


_NAMED = 3
"""How many bad items are named."""


class CheckedItems:
    """Items that have been read once and are valid; they are read again for each iteration."""

    def __init__(self, source: Source, count: int) -> None:
        """Take the source and the number of its items."""
        self.source = source
        self._count = count

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[InputRecord]:
        """Yield the items; raises UsageError if the source has become invalid since."""
        return iter(self.source)


def check(source: Source, template: Template | None) -> Iterable[InputRecord]:
    """Return the items of a source, checked as far as possible before anything is sent.

    All items are checked if they can be read twice; the result then has a length. Otherwise the first one is.
    template: None = each item is its question.
    Raises UsageError that names the first bad items.
    """
    if not source.is_repeatable:
        items = iter(source)
        first = next(items, None)
        if first is None:
            raise UsageError(f"{source.title} has no items")
        _check_first(first, template)
        return chain([first], items)
    return CheckedItems(source, _count(source, template))


def _count(source: Source, template: Template | None) -> int:
    """Return the number of items; raises UsageError if any is bad."""
    good = count = 0
    first: list[str] = []

    def bad(error: UsageError) -> None:
        nonlocal count
        count += 1
        if len(first) < _NAMED:
            first.append(str(error))

    try:
        for given in source.read(bad):
            number = good + count + 1
            if number == 1:
                _check_first(given, template)
            try:
                ask(given, template, number)
                good += 1
            except UsageError as error:
                bad(error)
    except UsageError as error:
        bad(error)
    if count == 1:
        raise UsageError(first[0])
    if count:
        more = f" | and {count - len(first):,} more" if count > len(first) else ""
        bad_items = f"{count:,} of {good + count:,} items cannot be asked about"
        raise UsageError(f"{source.title}: {bad_items}: {' | '.join(first)}{more}")
    if not good:
        raise UsageError(f"{source.title} has no items")
    return good


def _check_first(first: InputRecord, template: Template | None) -> None:
    """Check the template against the fields of the first item, because its errors are the same for all items."""
    if template is None:
        return
    if not template.fields:
        has = ", ".join(shown(name) for name in [*fields_of(first.input)][:5]) or "none"
        raise UsageError(
            f"the question {shown(template.text)!r} names no field, so it is the same for every item; put a field in "
            f"braces into it: {has}"
        )
    ask(first, template, 1)


_LIMIT_SHOWN = 60
# A NUL as `json.dumps` writes it; after an even number of backslashes, else the text contains these characters.
_NUL = re.compile(r"(?<!\\)(?:\\\\)*\\u0000")
_SUSPECT = re.compile(r"\\u(?:d[89a-f]|0000)")


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
        text = json.dumps(given, allow_nan=False)
    except (TypeError, ValueError) as error:
        return f"has a value that is not JSON: {str(error)[:_LIMIT_SHOWN]}"
    except RecursionError:
        return "is nested too deeply"
    return _bad_characters(given, text) if _SUSPECT.search(text) else None


def _bad_characters(given: object, text: str) -> str | None:
    """Return the characters of an input that databases or model APIs reject; None if there are none."""
    if _NUL.search(text):
        return "contains a NUL character; remove it"
    try:
        json.dumps(given, ensure_ascii=False).encode()
    except UnicodeEncodeError:
        return "contains half of a surrogate pair, which is not a character; remove it"
    return None
