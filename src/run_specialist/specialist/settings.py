"""Resolve the settings of a run from the call, the file, presets and defaults, with the origin of each."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from run_specialist.budget import PRESETS, Preset
from run_specialist.errors import SpecialistUnusable, UsageError, errors_as
from run_specialist.specialist.fields import CANONICAL, EXPECTED, Countdown, Specialist, nearest
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.mcp_servers import without_secrets
from run_specialist.specialist.origins import OriginKind, ValueOrigins, refusal, rule, stricter
from run_specialist.specialist.problems import shown

# Resolve the settings of a run from the call, the file, presets and defaults, with the origin of each.
#
# Precedence, highest first: a single setting of the call, the preset of the call, the same of data such as an eval
# case, a key of the file, the preset of the file, a key of a config file, the preset of a config file, the default. A
# preset of the call replaces that of the file and overrides the keys of the file that it sets. A preset of a config
# file applies only if there is no other preset.
#
# Of a limit that a project sets, in its config file or a specialist's file, the stricter one holds: a project cannot
# raise a limit of the user's own config file. Data is refused if the table of origins does not allow it.

SettingSource = Literal["flag", "data", "file", "preset", "project", "user", "default", "environment"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a value."""

    source: SettingSource
    """`flag` for the call, by a single setting or a preset; `data` for an eval case or a queue; `preset` for the preset
    of the file; `project` and `user` for their config files; `environment` for a variable."""
    line: int | None = None
    """Line of the key, or of `preset`, in the file or the config file."""
    preset: Preset | None = None
    """Preset that set the value, whether named by the call, by the file or by a config file."""
    path: Path | None = None
    """Config file; None for the other sources."""
    kind: OriginKind = "caller"
    """Decides what the value may do."""
    variable: str | None = None
    """Environment variable that sets it; the commands show it beside the keys of config files."""

    def __str__(self) -> str:
        """Return `line 5`, `preset finalize`, `--preset finalize`, `pyproject.toml:5`, `default` or the like."""
        if self.path:
            preset = f"preset {self.preset}, " if self.preset else ""
            return f"{preset}{self.path.name}:{self.line}"
        if self.preset:
            return f"{'--' if self.source == 'flag' else ''}preset {self.preset}"
        return f"line {self.line}" if self.line else self.variable or self.source


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """Resolved settings of one run."""

    settings: Specialist
    """Effective values; `model_fields_set` contains those set by the call, the file or a preset."""
    origins: Mapping[str, Origin]
    """Origins of the values that are not defaults, by key; parts of the countdown by `countdown.from` and so on."""

    capped: tuple[str, ...] = ()
    """A warning for each limit of a project that is not used because the user's own one is stricter."""

    def origin(self, key: str) -> Origin:
        """Return the origin of the value of a key."""
        return self.origins.get(key, Origin("default"))

    @property
    def kinds(self) -> ValueOrigins:
        """The origins that decide what the values may do."""
        return ValueOrigins({key: origin.kind for key, origin in self.origins.items()})


@dataclass(frozen=True)
class Data:
    """Settings from data: an eval case, or a batch in a queue."""

    settings: Mapping[str, Any]
    place: Callable[[str], str]
    """Returns the place of a key, for errors."""
    models: Collection[str] = ()
    """Models that it may name besides those of the file and the call."""


# Limits of what is paid for, on which the children of a project's specialist draw in any case.
_SHARED = ("total_tokens_limit", "cost_limit")

_Layer = tuple[Specialist, Callable[[str], Origin]]


def resolve(
    file: SpecialistFile, overrides: Mapping[str, Any], *, strict: bool = False, data: Data | None = None
) -> ResolvedSettings:
    """Return the settings of a run.

    overrides: Settings of the call by canonical key, including `preset`. None means no limit; a preset of None is
        ignored.
    strict: Reject files with warnings, too.
    data: Weaker than those of the call, and refused if the table of origins does not allow it.
    Raises SpecialistUnusable for a file that cannot be run, UsageError for an invalid setting.
    """
    file = file.strict() if strict else file
    if file.specialist is None:
        raise SpecialistUnusable("\n".join(str(problem) for problem in file.problems if problem.level == "error"))
    call = checked({key: value for key, value in overrides.items() if (key, value) != ("preset", None)})
    given = _checked_data(file, call, data) if data else checked({})
    config = checked({key: default.value for key, default in file.defaults.items()})

    def of_config(key: str) -> Origin:
        default = file.defaults[key]
        kind: OriginKind = "project" if default.scope == "project" else "caller"
        return Origin(default.scope, default.line, config.preset if key == "preset" else None, default.path, kind)

    kind_of_file = file.origin  # looked up once, because it follows links
    layers: list[_Layer] = [
        (config, of_config),
        (file.specialist, lambda key: Origin("file", file.lines.get(key), kind=kind_of_file)),
        (given, lambda _: Origin("data", kind="data")),
        (call, lambda key: Origin("flag", None, call.preset if key == "preset" else None)),
    ]
    # The preset of the highest layer that names one stands directly below it.
    if naming := [index for index, (partial, _) in enumerate(layers) if partial.preset]:
        named, origin_of = layers[naming[-1]]
        origin = origin_of("preset")
        if origin.source == "file":
            origin = replace(origin, source="preset", preset=named.preset)
        layers.insert(naming[-1], (_preset(named), lambda _: origin))
    values, origins, capped = _merged(layers, _limits_of_user(file))
    sharing = origins.get("share_budget", Origin("data", kind="data"))
    if values.get("share_budget") is False and rule("share_budget", sharing.kind) == "lower":
        limited = [key for key, origin in origins.items() if key in _SHARED and origin.kind == "caller"]
        if own := next((key for key in limited if values[key] is not None), ""):
            values["share_budget"] = True
            capped.append(f"share_budget: specialists that it asks could exceed your own {own}; true holds")
    return ResolvedSettings(file.specialist.model_copy(update=values), origins, tuple(capped))


def _preset(named: Specialist) -> Specialist:
    return checked(PRESETS[named.preset] if named.preset else {})


def _checked_data(file: SpecialistFile, call: Specialist, data: Data) -> Specialist:
    """Return the settings of data; raises UsageError, with the place, for one that is invalid or must not be used."""
    below = resolve(file, {}).settings
    allowed = {*data.models, below.model, *below.fallback_models, call.model, *call.fallback_models}
    for key, value in data.settings.items():
        with errors_as(UsageError, data.place(key), UsageError):
            given = getattr(checked({key: value}), key)
        models = {one for one in allowed if one is not None}
        if why := refusal(key, given, "data", without=getattr(below, key), allowed=models):
            raise UsageError(f"{data.place(key)}: {key}: {why}")
    return checked(data.settings)


def _limits_of_user(file: SpecialistFile) -> Mapping[str, tuple[Any, Origin]]:
    """Return the limits of the user's own config file, with their places; a project cannot raise them."""
    given = {key: one if one.scope == "user" else one.users for key, one in file.defaults.items()}
    users = {key: one for key, one in given.items() if one is not None}
    limits = checked({key: own.value for key, own in users.items() if rule(key, "project") == "lower"})
    return {
        key: (getattr(limits, key), Origin("user", users[key].line, path=users[key].path))
        for key in limits.model_fields_set
    }


def overridden(settings: Specialist, overrides: Mapping[str, Any]) -> Specialist:
    """Return resolved settings with those of a call applied; a preset among them replaces the previous one.

    Raises UsageError for an invalid setting.
    """
    call = checked({key: value for key, value in overrides.items() if (key, value) != ("preset", None)})
    # With another preset, what the previous one has set becomes the default again.
    previous = _preset(settings if call.preset else call)
    dropped = {key for key in previous.model_fields_set if getattr(previous, key) == getattr(settings, key)}
    defaults = {key: Specialist.model_fields[key].get_default(call_default_factory=True) for key in dropped}
    base = settings.model_copy(update=defaults)
    base.model_fields_set.difference_update(dropped)
    values, _, _ = _merged([(one, lambda _: Origin("flag")) for one in (base, _preset(call), call)], {})
    return base.model_copy(update=values)


def checked(settings: Mapping[str, Any]) -> Specialist:
    """Validate settings and return a specialist in which only these are set.

    Raises UsageError for the first invalid setting.
    """
    for key in settings:
        if key not in Specialist.model_fields:
            close = nearest(key)
            raise UsageError(f"unknown setting: {shown(key)}{f'; did you mean {close}?' if close else ''}")
    try:
        partial = Specialist.model_validate({"name": "", "description": "", "prompt": "", **settings})
    except ValidationError as error:
        raise UsageError(_message(settings, error)) from None
    partial.model_fields_set.intersection_update(settings)
    return partial


def _merged(
    layers: Sequence[_Layer], caps: Mapping[str, tuple[Any, Origin]]
) -> tuple[dict[str, Any], dict[str, Origin], list[str]]:
    """Merge layers, lowest precedence first, the countdown key by key; return values, origins and warnings.

    caps: limits of the user, which layers with the rule `lower` cannot raise.
    """
    values, origins, countdown = dict[str, Any](), dict[str, Origin](), dict[str, Any]()
    capped: dict[str, str] = {}
    for partial, origin_of in layers:
        for key in partial.model_fields_set - {"countdown"}:
            value, origin = getattr(partial, key), origin_of(key)
            capped.pop(key, None)
            if key in caps and rule(key, origin.kind) == "lower" and stricter(value, caps[key][0]) != value:
                place = str(origin) if origin.path else f"the specialist's file ({origin})"
                above = f"{_amount(value)} of {place} is above your own limit"
                value, origin = caps[key]
                capped[key] = f"{key}: {above}; {_amount(value)} ({origin}) holds"
            values[key], origins[key] = value, origin
        for inner in partial.countdown.model_fields_set if "countdown" in partial.model_fields_set else ():
            countdown[inner] = getattr(partial.countdown, inner)
            origins[f"countdown.{inner.rstrip('_')}"] = origin_of("countdown")
    values |= {"countdown": Countdown(**countdown)} if countdown else {}
    return values, origins, [*capped.values()]


def _amount(limit: float | None) -> str:
    return "none" if limit is None else f"{limit:g}"


def _message(settings: Mapping[str, Any], error: ValidationError) -> str:
    first = error.errors()[0]
    key, *inside = map(str, first["loc"])
    found = settings[key]
    if key == "countdown" and inside:
        key, found = f"{key}.{inside[0]}", first["input"]
        if key not in EXPECTED:
            return f"{key}: unknown key"
    complaint = EXPECTED[key].complaint(repr(found)) if key in EXPECTED else f"{first['msg']}, got {found!r}"
    return f"{key}: {complaint}"


_SHOWN_SEPARATELY = ("name", "description")
_UNSET = {"tools": "all", "paths": "all", "summarize_at": "none", "summary_limit": "-", "patience": "none"}
_PRECEDENCE = ("flag", "file", "preset", "project", "user", "default")
_LONGEST = 200


@dataclass(frozen=True, slots=True)
class Setting:
    """One key."""

    key: str
    value: object
    """Value as JSON types; None = no limit, or not set."""
    origin: Origin
    """Origin of the value; for a countdown, the one with the highest precedence among its parts."""

    @property
    def shown(self) -> str:
        """Value on one line, as written in a file."""
        value = self.value
        if value is None:
            return _UNSET.get(self.key, "none" if self.key.endswith("_limit") else "-")
        if isinstance(value, dict):
            if self.key == "countdown" and value["from"] is value["warn_at"] is None:
                return "none"
            pairs = (f"{name}: {'none' if item is None else item}" for name, item in value.items())
            return shown(", ".join(pairs), _LONGEST)
        if isinstance(value, list):
            return shown(", ".join(map(str, value)), _LONGEST) or "[]"
        if isinstance(value, float):
            return f"{value:.15g}"
        return str(value).lower() if isinstance(value, bool) else shown(str(value), _LONGEST)

    def as_json(self) -> dict[str, object]:
        """Return the object that `show --json` prints for the key."""
        path = self.origin.path
        place = {"line": self.origin.line, "path": None if path is None else str(path)}
        return {"value": self.value, "source": self.origin.source, **place}


def settings_of(resolved: ResolvedSettings) -> list[Setting]:
    """Return every setting of a run, highest precedence first."""
    values = resolved.settings.model_dump(mode="json", by_alias=True)
    if values["mcp_servers"]:
        values["mcp_servers"] = without_secrets(values["mcp_servers"])
    parts = [resolved.origin(f"countdown.{part}") for part in values["countdown"]]
    settings = [
        Setting(key, values[key], min(parts, key=_precedence) if key == "countdown" else resolved.origin(key))
        for key in CANONICAL
        if key not in _SHOWN_SEPARATELY
    ]
    return sorted(settings, key=lambda setting: _precedence(setting.origin))


def _precedence(origin: Origin) -> int:
    return _PRECEDENCE.index(origin.source)
