"""The question of each item: a template with named fields, or the item itself."""

import string
from collections.abc import Iterable, Iterator, Mapping

from run_specialist.batch.item import Asked, Input
from run_specialist.errors import UsageError

_FIELD = "item"
"""The name of an input that is a text."""


class Template:
    """A question with fields in braces, such as `What does {path} say?`; `{{` is a brace."""

    def __init__(self, text: str) -> None:
        """Parse a template; raises UsageError if a brace is not closed, or a field is no plain name."""
        self.text = text
        try:
            parts = [*string.Formatter().parse(text)]
        except ValueError as error:
            raise UsageError(f"the question {text!r}: {error}; write a brace that is text as {{{{ or }}}}") from None
        for _, name, spec, conversion in parts:
            if name is not None and (not name.isidentifier() or spec or conversion):
                raise UsageError(f"the question {text!r}: {{{name}}} is no field; use the name of a field alone")
        self.fields = tuple(dict.fromkeys(name for _, name, _, _ in parts if name is not None))
        """The names of the fields, in order."""

    def fill(self, given: Input, number: int) -> str:
        """Return the question of an item; raises UsageError if a field is missing."""
        fields = given if isinstance(given, Mapping) else {_FIELD: given}
        for name in self.fields:
            if name not in fields:
                has = ", ".join(map(str, fields)) or "no fields"
                raise UsageError(f"item {number} has no field {name!r}, which the question needs; it has {has}")
        return self.text.format_map({name: fields[name] for name in self.fields})


def asked(inputs: Iterable[Input], template: Template | None) -> Iterator[Asked]:
    """Yield each input with its question.

    template: None = each input is its question: a text, or the field `question`.
    Raises UsageError for an input without a question.
    """
    for number, given in enumerate(inputs, 1):
        question: object
        if template is not None:
            question = template.fill(given, number)
        else:
            question = given.get("question") if isinstance(given, Mapping) else given
        if not isinstance(question, str) or not question.strip():
            raise UsageError(f"item {number} has no question; give it a field `question`, or use a question template")
        yield Asked(given, question)
