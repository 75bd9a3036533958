"""The budget of a run: limits, spending, phases, amounts with units, the ladder of a landing, presets. No I/O.

By default a kind is silent for the first half of its limit, then counts down; it is spent when only the reserve for
the landing remains. The phase of a run is the phase of its tightest kind.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from fractions import Fraction
from functools import cache
from typing import Any, Literal


class Kind(StrEnum):
    """A kind of spending that can be limited."""

    TOOL_CALLS = "tool_calls"
    TURNS = "turns"
    TOKENS = "tokens"
    COST = "cost"
    TIME = "time"
    CHARACTERS = "characters"

    place: int
    """Index of the kind in `Budget.limits`, which is faster than a look-up by a member."""

    @property
    def label(self) -> str:
        """The name of the kind in a sentence, e.g. `tool calls`."""
        return self.value.replace("_", " ")

    @property
    def key(self) -> str:
        """The key that limits the kind in a specialist's front matter."""
        return _KEYS.get(self.value, f"{self.value}_limit")


for _place, _kind in enumerate(Kind):
    _kind.place = _place
_KEYS = {"tokens": "total_tokens_limit", "characters": "tool_chars_limit"}


class Phase(StrEnum):
    """How close a limit is: not yet shown, counting down, or reached."""

    SILENT = "silent"
    COUNTDOWN = "countdown"
    SPENT = "spent"


_PHASES = tuple(Phase)

COUNTDOWN_FROM = 0.5
"""Default share spent at which the countdown starts."""
# Minimum time held back for the landing, but at most half of the time limit [s].
_MIN_LANDING_SECONDS = 5.0


@dataclass(frozen=True, slots=True)
class Limit:
    """The limit and the spending of one kind in one run."""

    kind: Kind
    limit: float | None
    """None = unlimited; 0 is a limit."""
    used: float = 0
    countdown_from: float | None = COUNTDOWN_FROM
    """When the countdown starts: a float = share spent, an integer = amount remaining, None = never."""
    held_back: float = 0
    """Reserve for the landing, which begins when only this much remains."""
    lent: float = 0
    """Amount reserved for children that have not ended."""
    before: float = 0
    """Amount used for earlier questions, which countdown and reserve leave out."""

    @property
    def remaining(self) -> float | None:
        """Amount left, never below 0; None if unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent, 0)

    @property
    def until_landing(self) -> float | None:
        """Amount that can be spent before the landing begins, never below 0; None if unlimited."""
        return None if self.limit is None else max(self.limit - self.used - self.lent - self.held_back, 0)

    @property
    def phase(self) -> Phase:
        """How close the limit is."""
        limit, start = self.limit, self.countdown_from
        if limit is None:
            return Phase.SILENT
        if self.used + self.held_back >= limit:
            return Phase.SPENT
        if start is None:
            return Phase.SILENT
        counts_down = limit - self.used <= start if isinstance(start, int) else self.reached(start)
        return Phase.COUNTDOWN if counts_down else Phase.SILENT

    @property
    def closeness(self) -> tuple[int, float]:
        """How close the limit is, in a form that can be compared."""
        return _PHASES.index(self.phase), self.share

    def reached(self, share: float) -> bool:
        """Return True if this share of the limit is spent; always False if unlimited."""
        if self.limit is None:
            return False
        return self.used - self.before >= _exact_product(share, self.limit - self.before)

    @property
    def share(self) -> float:
        """The share spent; 0 if unlimited, 1 for a limit of 0."""
        if self.limit is None:
            return 0.0
        fresh = self.limit - self.before
        return (self.used - self.before) / fresh if fresh else 1.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The spending of all kinds in one run, limited or only counted."""

    limits: tuple[Limit, ...]
    """One for each kind, in the order of `Kind`."""

    @classmethod
    def of(cls, limits: Mapping[Kind, float | None], countdown_from: float | None = COUNTDOWN_FROM) -> "Budget":
        """Return an unspent budget; kinds missing from `limits` are counted without a limit.

        countdown_from: as in `Limit`; an integer applies to tool calls, and other kinds use COUNTDOWN_FROM.
        """
        amount_left: object = countdown_from
        others_start = COUNTDOWN_FROM if isinstance(amount_left, int) else countdown_from
        starts: dict[Kind, float | None] = dict.fromkeys(Kind, others_start)
        starts[Kind.TOOL_CALLS] = countdown_from
        given = {kind: limits.get(kind) for kind in Kind}
        return cls(tuple(Limit(kind, limit, 0, starts[kind], _held_back(kind, limit)) for kind, limit in given.items()))

    def __getitem__(self, kind: Kind) -> Limit:
        return self.limits[kind.place]

    def spend(self, amount: float = 1, kind: Kind = Kind.TOOL_CALLS) -> "Budget":
        """Return the budget after spending `amount` more of one kind.

        amount: >= 0; failed tool calls count, too [the kind's unit].
        Raises ValueError if amount < 0.
        """
        return self.spend_all({kind: amount})

    def spend_all(self, amounts: Mapping[Kind, float]) -> "Budget":
        """Return the budget after spending amounts of several kinds; raises ValueError as `spend` does."""
        if not amounts:
            return self
        limits = [*self.limits]
        for kind, amount in amounts.items():
            if amount < 0:
                raise ValueError(f"cannot spend a negative amount: {amount}")
            place = kind.place
            old = limits[place]
            # `replace` takes three times as long, and each turn does this about fifteen times.
            used, start, reserve = old.used + amount, old.countdown_from, old.held_back
            limits[place] = Limit(old.kind, old.limit, used, start, reserve, old.lent, old.before)
        return Budget(tuple(limits))

    def lend(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` more of one kind reserved for a child; a negative amount releases it."""
        return self._with(replace(self[kind], lent=self[kind].lent + amount))

    def hold(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with `amount` of one kind held back for the landing."""
        return self._with(replace(self[kind], held_back=amount))

    def limited(self, amount: float, kind: Kind) -> "Budget":
        """Return the budget with another limit of one kind [the kind's unit]."""
        return self._with(replace(self[kind], limit=amount))

    def refreshed(self, before: Mapping[str, float]) -> "Budget":
        """Return the budget of a further question.

        before: amounts used for earlier questions by kind; a missing kind was not refreshed [the kind's unit].
        """
        known = ((limit, before.get(limit.kind, 0)) for limit in self.limits)
        return Budget(
            tuple(
                replace(one, before=used, held_back=_held_back(one.kind, one.limit and one.limit - used))
                for one, used in known
            )
        )

    def _with(self, limit: Limit) -> "Budget":
        limits = [*self.limits]
        limits[limit.kind.place] = limit
        return Budget(tuple(limits))

    @property
    def tightest(self) -> Limit:
        """The limit closest to exhaustion; tool calls if nothing is limited."""
        tightest = self.limits[0]
        # A loop without calls while only one kind is limited: this is asked several times a turn.
        for limit in self.limits[1:]:
            if limit.limit is not None and (tightest.limit is None or limit.closeness > tightest.closeness):
                tightest = limit
        return tightest

    @property
    def phase(self) -> Phase:
        """The phase of the tightest kind."""
        return self.tightest.phase


@cache
def _exact_product(share: float, limit: float) -> Fraction | int:
    # Exact decimal arithmetic: 0.55 of 20 is 11, not 11.000000000000002.
    product = Fraction(str(share)) * Fraction(str(limit))
    # Comparing integers is much faster, and each tool call compares several times.
    return product.numerator if product.denominator == 1 else product


def _held_back(kind: Kind, limit: float | None) -> float:
    """Return the initial reserve for the landing; the reserve of tokens and cost depends on the requests so far."""
    if kind is Kind.TURNS:
        return 1
    if kind is Kind.TIME and limit is not None:
        return min(max(limit / 10, _MIN_LANDING_SECONDS), limit / 2)
    return 0


# The ladder of a landing: the rungs that are tried in order when the budget is spent. No I/O.
#
# force     the tool choice of the next request forces `respond`; invalidates the message cache, but is unambiguous
# order     the last result orders the model to call `respond`; keeps the cache
# schema    the reply is constrained to JSON of the shape of `respond`
# wait      no change until the model makes calls beyond the limit (not counted as a rung)
# finalize  a notice beside the skipped calls asks for the answer now
# none      the request allows no tool, and its text is the answer
# salvage   no request: the answer is built from the last text and the results

Style = Literal["auto", "force", "order", "schema", "none", "finalize", "stop"]
"""Values of `landing` in a specialist's front matter."""


class Rung(StrEnum):
    """One way to obtain an answer at a limit."""

    FORCE = "force"
    ORDER = "order"
    SCHEMA = "schema"
    WAIT = "wait"
    FINALIZE = "finalize"
    NONE = "none"
    SALVAGE = "salvage"


def ladder(
    style: Style,
    *,
    forced_choice: bool,
    schema: bool = False,
    schema_first: bool = False,
    refused: Collection[Rung] = (),
) -> tuple[Rung, ...]:
    """Return the rungs to try before salvaging; at most three are counted.

    forced_choice: whether the model supports a forced tool choice; the style `force` tries it in any case.
    schema: whether the endpoint may constrain a reply to a schema.
    schema_first: whether a schema is more reliable there than a forced choice.
    refused: rungs that the endpoint has refused; others take their place.
    """
    schema = schema and Rung.SCHEMA not in refused
    if style == "finalize":
        rungs: tuple[Rung, ...] = (Rung.WAIT, Rung.FINALIZE, Rung.NONE)
    elif style == "none":
        # Without this rung the style would have none, so an order is sent to get an answer.
        rungs = (Rung.ORDER,) if Rung.NONE in refused else (Rung.NONE,)
    elif style == "stop":
        rungs = ()
    elif style == "schema" and schema:
        rungs = (Rung.SCHEMA, Rung.NONE)
    else:
        is_forced = (style == "force" or (style != "order" and forced_choice)) and Rung.FORCE not in refused
        choice = Rung.FORCE if is_forced else Rung.ORDER
        if not schema:
            rungs = (Rung.FORCE, Rung.ORDER, Rung.NONE) if is_forced else (Rung.ORDER, Rung.NONE)
        else:
            is_first = schema_first and style == "auto"
            rungs = (Rung.SCHEMA, choice, Rung.NONE) if is_first else (choice, Rung.SCHEMA, Rung.NONE)
    return tuple(rung for rung in rungs if rung not in refused)


MAX_REQUESTS = 3
"""Maximum number of answered requests in a landing."""


@dataclass(frozen=True, slots=True)
class LadderPosition:
    """The position of a run on its ladder."""

    reason: Kind
    """The limit that was reached."""
    rungs: tuple[Rung, ...]
    """The rungs to try, the current one first."""
    requests: int = 0
    """Answered requests of the landing; refused requests do not count."""
    tried: tuple[Rung, ...] = ()
    """The rungs that the model did not follow, in order."""

    @property
    def rung(self) -> Rung:
        """The current rung; salvage if none is left, or after MAX_REQUESTS answered requests."""
        return self.rungs[0] if self.rungs and self.requests < MAX_REQUESTS else Rung.SALVAGE

    def answered(self) -> "LadderPosition":
        """Return the position after an answered request on the current rung."""
        return self if self.rung is Rung.WAIT else replace(self, requests=self.requests + 1)

    def ignored(self) -> "LadderPosition":
        """Return the position on the next rung, after an answered request in which the model did something else."""
        return replace(self.answered(), rungs=self.rungs[1:], tried=(*self.tried, *self.rungs[:1]))

    def given_up(self) -> "LadderPosition":
        """Return the position without any rungs, because no time is left for requests."""
        return replace(self, rungs=())

    def refused(self, rungs: Sequence[Rung]) -> "LadderPosition":
        """Return the position on another ladder, because the endpoint refused the current rung.

        rungs: a ladder without the refused rung; those that were tried are omitted.
        """
        return replace(self, rungs=tuple(rung for rung in rungs if rung not in self.tried))

    def resumed(self, rung: Rung) -> "LadderPosition":
        """Return the position on the rung that a reply from before an interruption answers; all others follow."""
        return replace(self, rungs=(rung, *(other for other in self.rungs if other is not rung)))


_NOUNS = {kind: "second" if kind is Kind.TIME else kind.label.removesuffix("s") for kind in Kind}


def amount(kind: Kind, value: float) -> str:
    """Return an amount with its unit: `1 tool call`, `12,000 tokens`, `$0.04`, `40 seconds`."""
    text = number(kind, value)
    return text + ("" if kind is Kind.COST else f" {_NOUNS[kind]}{'' if text == '1' else 's'}")


def counted(number: int, noun: str) -> str:
    """Return a number with its noun, e.g. `1 turn` or `2 turns`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


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
    from decimal import Decimal  # noqa: PLC0415 - only amounts in dollars need it

    if value >= 0.01 or value <= 0:  # noqa: PLR2004 - one cent
        return f"${value:,.2f}"
    return f"${Decimal(value).quantize(Decimal(1).scaleb(Decimal(value).adjusted() - 1)).normalize():f}"


Preset = Literal["soft-landing", "soft-warning", "finalize", "budget-notice", "openai-loop"]

PRESETS: Mapping[Preset, Mapping[str, Any]] = {
    "soft-landing": {
        "budget_notice": True,
        "countdown": {"from": 0.5, "style": "remaining", "warn_at": "none"},
        "landing": "auto",
    },
    "soft-warning": {
        "budget_notice": False,
        "countdown": {"from": "none", "warn_at": 1},
        "landing": "auto",
        "tool_chars_limit": 100_000,
    },
    "finalize": {
        "budget_notice": False,
        "countdown": "none",
        "landing": "finalize",
        "summarize_at": 150_000,
        "parallel_tools_limit": 1,
    },
    "budget-notice": {
        "budget_notice": True,
        "countdown": {"from": 3, "style": "budget", "warn_at": "none"},
        "landing": "auto",
    },
    "openai-loop": {
        "budget_notice": False,
        "countdown": {"from": 0, "style": "json", "warn_at": "none"},
        "landing": "none",
    },
}
"""Settings of each preset, as keys and values of a specialist file; a preset does not affect other keys."""
