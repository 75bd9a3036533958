"""The last part of `specialists show`: model, tools and limits of a run of the specialist."""

import asyncio
import shutil
import textwrap
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from run_specialist.api.flag_names import with_flags
from run_specialist.budget.units import dollars
from run_specialist.cli.console import is_terminal, print_line, printable
from run_specialist.errors import RunSpecialistError, StoreMissing

if TYPE_CHECKING:
    from run_specialist.spawning.effective import EffectiveModel, EffectiveSettings
    from run_specialist.spawning.prompt_texts import AddedText
    from run_specialist.specialist.defaults import Defaults
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.views.past_medians import Medians

_MOST_RUNS = 1_000
"""How many of the newest runs of a specialist are considered."""
_LABEL = 13
"""Width of the labels [columns]."""
_NARROWEST = 40


@dataclass(frozen=True)
class EffectiveBlock:
    """Model, tools and limits of a run, and the medians of past runs."""

    file: "SpecialistFile"
    effective: "EffectiveSettings"
    medians: Sequence["Medians"]
    """Of past runs of this file, by model."""
    note: str
    """Why there are no medians; empty if there are some."""

    @classmethod
    def of(
        cls,
        file: "SpecialistFile",
        root: Path | None,
        dir_: Path | None,
        preset: str | None,
        store: str | None,
        defaults: "Defaults",
    ) -> Self | None:
        """Return the block of a file; None for a file with errors.

        defaults: those of the config files.
        """
        if file.specialist is None:
            return None
        from run_specialist.api.preview import effective_of  # noqa: PLC0415 - fast `--help`
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

        settings = {"preset": preset} if preset else {}
        found = asyncio.run(effective_of(Runner(root=root, dir=dir_, defaults=defaults), file, settings))
        return cls(file, found, *_past(file, store))

    def as_json(self) -> dict[str, Any]:
        """Return the object that `show --json` prints."""
        from run_specialist.views.past_medians import as_json  # noqa: PLC0415 - fast `--help`

        runs = sum(one.runs for one in self.medians)
        past = {"runs": runs, "medians": as_json(self.medians), "note": self.note or None}
        return self.effective.as_json(self.file) | {"past_runs": past}

    def print(self) -> None:
        """Print one line for each fact, wrapped on a terminal."""
        print_line("\nWhat a run gets:")
        before = ""
        for label, text in self._rows():
            _print_row("" if label == before else label, text)
            before = label

    def _rows(self) -> Iterator[tuple[str, str]]:
        """Yield labels and texts; those with the same label follow one another."""
        found = self.effective
        yield from (("cannot run", with_flags(reason)) for reason in found.cannot_run)
        yield "model", _model(found.model)
        yield from (("then", _model(one)) for one in found.following)
        if found.offered is not None:
            yield "tools", ", ".join(found.offered)
        yield from (("not offered", text) for text in self._dropped())
        limited = [(key, limit) for key, limit in found.limits.items() if limit.value is not None]
        yield "limits", ", ".join(f"{key} {_amount(key, limit.value)} ({limit.origin})" for key, limit in limited)
        if unset := [key for key, limit in found.limits.items() if limit.value is None]:
            yield "no limit", ", ".join(unset)
        yield from (("also sent", _added(one, found.model)) for one in found.added_to_prompt)
        yield from (("at run time", note) for note in found.at_run_time)
        yield from (("past runs", _medians(one)) for one in self.medians)
        if self.note:
            yield "past runs", self.note

    def _dropped(self) -> Iterator[str]:
        by_reason: dict[str, list[str]] = {}
        for one in self.effective.dropped:
            line = self.file.lines.get(one.key or "")
            where = f" ({one.key}{f', line {line}' if line else ''})" if one.key else ""
            by_reason.setdefault(one.reason + where, []).append(one.name)
        for reason, names in by_reason.items():
            yield f"{', '.join(names)}: {reason}"


def _past(file: "SpecialistFile", store: str | None) -> tuple[Sequence["Medians"], str]:
    """Return the medians of a file's past runs, or why there are none; no store is made, and none is required."""
    from run_specialist.store.location import NONE, place, shown  # noqa: PLC0415 - fast `--help`
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.past_medians import medians_by_model  # noqa: PLC0415 - fast `--help`

    try:
        url = place(store).url
        if url == NONE:
            return (), "none: runs are not stored"
        with Store(url) as opened:
            medians = medians_by_model(opened.outcomes_of_file(file.name, file.path, _MOST_RUNS))
    except StoreMissing as missing:
        return (), f"none: {missing}"
    except (RunSpecialistError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return (), f"not known: {error}"
    return medians, "" if medians else f"none with an answer in {shown(url)}"


def _amount(key: str, value: float | None) -> str:
    """Return a limit with its unit, if the name of the key does not contain it."""
    if key == "cost_limit":
        return dollars(value or 0)
    return f"{value:,.15g}{' s' if key in {'time_limit', 'tool_timeout'} else ''}"


def _model(model: "EffectiveModel") -> str:
    name = model.id if model.name == model.id else f"{model.name}, that is {model.id}"
    if model.is_free:
        return f"{name} ({model.source}), free of charge"
    price = model.price
    if price is None:
        return f"{name} ({model.source}), price unknown"
    more = "" if price.higher_above is None else f", more above {price.higher_above:,} tokens of input"
    prices = f"{dollars(price.input)} in and {dollars(price.output)} out per million tokens{more}"
    return f"{name} ({model.source}), {prices}"


def _added(one: "AddedText", model: "EffectiveModel") -> str:
    """Return an added text with its size, and its price whenever it is not cached."""
    cost = f", {dollars(one.tokens * model.price.input / 1_000_000)} uncached" if model.price else ""
    return f"{one.name}, about {one.tokens:,} tokens in each request{cost}"


def _medians(one: "Medians") -> str:
    from run_specialist.cli.show_runs import counted  # noqa: PLC0415 - fast `--help`

    cost = "cost unknown" if one.cost_usd is None else dollars(one.cost_usd)
    calls = f"{one.tool_calls:g} tool call{'' if one.tool_calls == 1 else 's'}"
    return f"{counted(one.runs)} with {one.model}; median {calls}, {one.seconds:.3g} s, {cost}"


def _print_row(label: str, text: str) -> None:
    text = printable(" ".join(text.split()))
    head = f"  {label:<{_LABEL}}"
    if not is_terminal():
        print_line(head + text)
        return
    width = max(shutil.get_terminal_size().columns, _NARROWEST)
    below = " " * len(head)
    print_line(textwrap.fill(text, width, initial_indent=head, subsequent_indent=below, break_on_hyphens=False))
