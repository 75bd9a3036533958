"""Format amounts of each kind of spending, for models and for people."""

from decimal import Decimal

from run_specialist.budget.budget import Kind

_NOUNS = {
    Kind.TOOL_CALLS: "tool call",
    Kind.TURNS: "turn",
    Kind.TOKENS: "token",
    Kind.TIME: "second",
    Kind.CHARACTERS: "character",
}


def amount(kind: Kind, value: float) -> str:
    """Return an amount with its unit: `1 tool call`, `12,000 tokens`, `$0.04`, `40 seconds`."""
    noun = "" if kind is Kind.COST else f" {_NOUNS[kind]}{'' if int(value) == 1 else 's'}"
    return number(kind, value) + noun


def of(kind: Kind, value: float) -> str:
    """Return an amount with its unit in the plural, even for 1, as it follows "3 of"."""
    return number(kind, value) + ("" if kind is Kind.COST else f" {_NOUNS[kind]}s")


def number(kind: Kind, value: float) -> str:
    """Return an amount without its unit: `12,000`, `$0.04`; a fraction of seconds below 10 has one decimal."""
    if kind is Kind.COST:
        return dollars(value)
    has_decimal = kind is Kind.TIME and value < 10 and value != int(value)  # noqa: PLR2004 - one digit
    return f"{value:.1f}" if has_decimal else f"{int(value):,}"


def dollars(value: float) -> str:
    """Return an amount such as `$1.20`; below one cent with two significant digits."""
    if value >= 0.01 or value <= 0:  # noqa: PLR2004 - one cent
        return f"${value:,.2f}"
    return f"${Decimal(value).quantize(Decimal(1).scaleb(Decimal(value).adjusted() - 1)).normalize():f}"
