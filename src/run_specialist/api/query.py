"""The question of a call, which has two names."""

from run_specialist.errors import UsageError


def question_of(query: str | None, question: str | None) -> str:
    """Return the question, given by either name.

    Raises UsageError if it is missing, given twice, empty, or no string.
    """
    asked = optional_question(query, question)
    if asked is None:
        raise UsageError("the question is missing; pass it as `query`")
    if not isinstance(asked, str):
        raise UsageError(f"query must be a string, got {type(asked).__name__}")
    if not asked.strip():
        raise UsageError("the question is empty; pass the question that the specialist should answer")
    return asked


def optional_question(query: str | None, question: str | None) -> str | None:
    """Return the question, given by either name; None if there is none.

    Raises UsageError if it is given twice.
    """
    if query is not None and question is not None:
        raise UsageError("`query` and `question` are two names of one argument; pass only `query`")
    return question if query is None else query
