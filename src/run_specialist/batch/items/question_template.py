"""The question of each item: a template with named fields, or the item itself."""

import difflib
import re
from collections.abc import Iterable, Iterator, Mapping

from run_specialist.batch.item import Input, InputRecord, UnnumberedItem
from run_specialist.batch.items.input_values import as_text, fields_of, problem_of
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
                raise UsageError(_syntax(text, token))
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


def _syntax(text: str, token: re.Match[str]) -> str:
    place = f"the question, character {token.start() + 1}"
    near = shown(text[token.start() : token.start() + 20])
    if token[1] is None:
        return f"{place}: the brace in {near!r} is unmatched; write a literal brace as {{{{ or }}}}"
    return f"{place}: a field has no name; write {{item}} for an item that is a text, else the name of a field"


def _hint(name: str, fields: Mapping[str, object]) -> str:
    names = [*fields]
    near = difflib.get_close_matches(name[:100].strip().casefold(), {one.casefold(): one for one in names}, 1, _NEAR)
    if near:
        meant = next(one for one in names if one.casefold() == near[0])
        return f"; did you mean {{{shown(meant)}}}?"
    more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
    listed = ", ".join(shown(one) for one in names[:_MOST_NAMED])
    return f"; it has {listed}{more}; write literal braces as {{{{ and }}}}" if listed else "; it has no fields"


def ask(given: InputRecord, template: Template | None, number: int) -> UnnumberedItem:
    """Return an input with its question; raises UsageError with its place if it cannot be asked about.

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
    return UnnumberedItem(value, question, given.content, given.where)


def asked(inputs: Iterable[Input | InputRecord], template: Template | None) -> Iterator[UnnumberedItem]:
    """Yield each input with its question.

    template: None = each input is its question: a text, or the field `question`.
    Raises UsageError for an input that cannot be asked about.
    """
    for number, given in enumerate(inputs, 1):
        yield ask(_plain(given), template, number)


def _plain(given: Input | InputRecord) -> InputRecord:
    if isinstance(given, InputRecord):
        return given
    # JSON knows only real dictionaries.
    return InputRecord(dict(given) if isinstance(given, Mapping) else given)
