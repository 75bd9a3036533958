"""How amounts of each kind of spending are written, for models and for people."""

from run_specialist.budget import Kind

_NOUNS = {
    Kind.TOOL_CALLS: "tool call",
    Kind.TURNS: "turn",
    Kind.TOKENS: "token",
    Kind.TIME: "second",
    Kind.CHARACTERS: "character",
}


def amount(kind: Kind, value: float) -> str:
    """Return so much of a kind: `1 tool call`, `12,000 tokens`, `$0.04`, `40 seconds`."""
    noun = "" if kind is Kind.COST else f" {_NOUNS[kind]}{'' if int(value) == 1 else 's'}"
    return number(kind, value) + noun


def of(kind: Kind, value: float) -> str:
    """Return so much of a kind in the plural even of one, as it stands after "3 of"."""
    return number(kind, value) + ("" if kind is Kind.COST else f" {_NOUNS[kind]}s")


def number(kind: Kind, value: float) -> str:
    """Return the figure alone: `12,000`, `$0.04`."""
    return dollars(value) if kind is Kind.COST else f"{int(value):,}"


def dollars(value: float) -> str:
    """Return `$1.20`; of less than a cent the first digits that tell something."""
    return f"${value:.2f}" if value >= 0.01 or value <= 0 else f"${value:.2g}"  # noqa: PLR2004 - one cent
