"""The commands `specialists show` and `config`: effective settings and their origins, and what cannot work here."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from run_specialist.budget import counted, dollars
from run_specialist.cli import console, flags
from run_specialist.cli.tables import print_table
from run_specialist.errors import RunSpecialistError, StoreMissing, with_flags
from run_specialist.specialist.problems import shown
from run_specialist.store import location

if TYPE_CHECKING:
    from run_specialist.api.preview import EffectiveModel, EffectiveSettings
    from run_specialist.specialist.loader import SpecialistFile
    from run_specialist.specialist.settings import Setting


def show(
    name: flags.SpecialistName,
    preset: flags.PresetName = None,
    dir_: flags.Dir = None,
    root: flags.ProjectRoot = None,
    store: flags.StoreUrl = None,
    all_: Annotated[bool, typer.Option("--all", help="Show default values, too.")] = False,
    json_: flags.Json = False,
) -> None:
    """Show what a specialist's file sets, and what a run gets."""
    with console.guarded():
        from run_specialist.api.preview import effective_of  # noqa: PLC0415 - fast `--help`
        from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`
        from run_specialist.specialist.settings import resolve, settings_of  # noqa: PLC0415 - fast `--help`

        project, meant = console.project_folder(root), root is not None
        registry, folder, defaults = flags.configured_project(project, dir_, meant=meant)
        file = registry.find(name)
        reason = unavailable([file], project, defaults.model).get(file.path, "")
        settings: list[Setting] = []
        trusted, trust_line, effective = None, "", None
        medians: Sequence[dict[str, Any]] = ()
        note = ""
        if file.specialist:
            settings = settings_of(resolve(file, {"preset": preset}))
            trusted, trust_line = flags.trust_status(file, file.specialist, project)
            runner = Runner(root=root, dir=folder, defaults=defaults)
            import asyncio  # noqa: PLC0415 - fast `--help`

            effective = asyncio.run(effective_of(runner, file, {"preset": preset} if preset else {}))
            medians, note = _past(file, store)
        if json_:
            past = {"runs": sum(one["runs"] for one in medians), "medians": [*medians], "note": note or None}
            shown_effective = effective and effective.as_json(file) | {"past_runs": past}
            here = {"trusted": trusted, "unavailable": reason or None, "effective": shown_effective}
            prompt = file.specialist.prompt if file.specialist else None
            values = {setting.key: setting.as_json() for setting in settings}
            console.print_json(file.as_json() | {"settings": values, "prompt": prompt} | here)
            return
        console.print_line(f"{console.one_line(file.name)}  {file.status}  {console.relative(file.path)}")
        console.print_wrapped(console.one_line(file.description))
        console.print_line("")
        if reason:
            console.print_line(f"{console.one_line(with_flags(f'cannot work here: {reason}'))}\n")
        rows = [(one.key, str(one.origin), one.shown) for one in settings if all_ or one.origin.source != "default"]
        if rows:
            print_table(("KEY", "FROM", "VALUE"), rows)
        if more := len(settings) - len(rows):
            console.say(f"{more} more keys have default values: --all", dim=True)
        if trust_line:
            console.print_line(f"\n{console.one_line(trust_line)}")
        if file.problems:
            console.print_line("")
            console.print_problems(file.problems)
        if file.specialist and effective:
            console.print_line("\n" + shown(file.specialist.prompt, None, keep="\n\t"))
            console.print_line("\nWhat a run gets:")
            before = ""
            for label, text in (*_facts(file, effective), *(("past runs", _medians(one)) for one in medians)):
                console.print_wrapped(f"  {'' if label == before else label:<13}{console.one_line(text)}")
                before = label
            if note:
                console.print_wrapped(f"  {'past runs':<13}{console.one_line(note)}")


def unavailable(files: "Sequence[SpecialistFile]", root: Path, default: str | None) -> Mapping[Path, str]:
    """Return why specialists cannot work in a folder with this environment, by the path of their file.

    default: the model of a config file.
    """
    from run_specialist.spawning.availability import ModelRule, model_obstacle, obstacles  # noqa: PLC0415 - fast `--help`

    rule = ModelRule.of(None)
    return obstacles(files, root, lambda settings: model_obstacle(rule, settings, default))


# How many of the newest runs of a specialist are considered.
_MOST_RUNS = 1_000


def _facts(file: "SpecialistFile", found: "EffectiveSettings") -> Iterator[tuple[str, str]]:
    """Yield what a run gets, as labels and texts; those with the same label follow one another."""
    yield from (("cannot run", with_flags(reason)) for reason in found.cannot_run)
    yield "model", _model(found.model)
    yield from (("then", _model(one)) for one in found.following)
    if found.offered is not None:
        yield "tools", ", ".join(found.offered)
    by_reason: dict[str, list[str]] = {}
    for one in found.dropped:
        line = file.lines.get(one.key or "")
        where = f" ({one.key}{f', line {line}' if line else ''})" if one.key else ""
        by_reason.setdefault(one.reason + where, []).append(one.name)
    yield from (("not offered", f"{', '.join(names)}: {reason}") for reason, names in by_reason.items())
    limited = [(key, limit) for key, limit in found.limits.items() if limit.value is not None]
    yield "limits", ", ".join(f"{key} {_amount(key, limit.value)} ({limit.origin})" for key, limit in limited)
    if unset := [key for key, limit in found.limits.items() if limit.value is None]:
        yield "no limit", ", ".join(unset)
    for text in found.added_to_prompt:
        price = found.model.price
        # What it costs whenever it is not cached.
        cost = f", {dollars(text.tokens * price.input / 1_000_000)} uncached" if price else ""
        yield "also sent", f"{text.name}, about {text.tokens:,} tokens in each request{cost}"
    yield from (("at run time", note) for note in found.at_run_time)


def _past(file: "SpecialistFile", store: str | None) -> tuple[Sequence[dict[str, Any]], str]:
    """Return the medians of a file's past runs, or why there are none; no store is made, and none is required."""
    from run_specialist.store.reader import Store  # noqa: PLC0415 - fast `--help`
    from run_specialist.views.tune import medians_by_model  # noqa: PLC0415 - fast `--help`

    try:
        url = location.place(store).url
        url_shown = location.shown(url)
        if url == location.NONE:
            return (), "none: runs are not stored"
        with Store(url) as opened:
            medians = medians_by_model(opened.outcomes_of_file(file.name, file.path, _MOST_RUNS))
    except StoreMissing as missing:
        return (), f"none: {missing}"
    except (RunSpecialistError, OSError, ValueError, LookupError, TypeError, AttributeError) as error:
        return (), f"not known: {error}"
    return medians, "" if medians else f"none with an answer in {url_shown}"


def _amount(key: str, value: Any) -> str:  # noqa: ANN401 - a number
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


def _medians(one: dict[str, Any]) -> str:
    cost = "cost unknown" if one["cost_usd"] is None else dollars(one["cost_usd"])
    calls = f"{one['tool_calls']:g} tool call{'' if one['tool_calls'] == 1 else 's'}"
    return f"{counted(one['runs'], 'run')} with {one['model']}; median {calls}, {one['seconds']:.3g} s, {cost}"


_STATES = {"read": "read", "missing": "does not exist", "no table": "no table [tool.run-specialist]"}


def config(root: flags.ProjectRoot = None, json_: flags.Json = False) -> None:
    """Show the settings of config files and environment, with sources."""
    with console.guarded():
        from run_specialist.api.config_files import holdings, model_claim, near, read_config  # noqa: PLC0415 - fast `--help`

        read = read_config(console.project_folder(root).absolute(), meant=root is not None)
        held = list(holdings(read))
        claim = model_claim(read)
        trusted, line = flags.trust_of("the model of the project", [claim] if claim else [])
        if json_:
            settings = {one.key: {**one.as_json(), "variable": one.origin.variable} for one in held}
            files = [
                {
                    "path": str(one.path),
                    "scope": one.scope,
                    "state": one.state.replace(" ", "_"),
                    "reason": one.reason or None,
                }
                for one in read.files
            ]
            console.print_json({"settings": settings, "files": files, "trusted": trusted})
            return
        print_table(("KEY", "VALUE", "FROM"), [(one.key, one.shown, str(one.origin)) for one in held])
        console.print_line("")
        if not read.files:
            console.print_line("No config file is read: SPECIALIST_CONFIG is none.")
        for file in read.files:
            state = f"ignored, {file.reason}" if file.reason else _STATES[file.state]
            console.print_line(f"{near(file.path)}: {state}")
        if line:
            console.print_line("")
            console.print_wrapped(line)
        console.say("for one specialist, with its own file: specialists show NAME", dim=True)
