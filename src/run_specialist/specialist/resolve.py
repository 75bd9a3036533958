"""Resolve the settings of a run from the call, the file, presets and defaults, with the origin of each.

Precedence, highest first: a single setting of the call, the preset of the call, a key of the file, the preset of the
file, a key of a config file, the preset of a config file, the default. A preset of the call replaces that of the file
and overrides the keys of the file that it sets. A preset of a config file applies only if there is no other preset.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from run_specialist.errors import SpecialistUnusable, UsageError
from run_specialist.specialist.field_values import expected
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.keys import nearest
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.presets import PRESETS, Preset
from run_specialist.specialist.problems import shown

SettingSource = Literal["flag", "file", "preset", "project", "user", "default"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of a value."""

    source: SettingSource
    """`flag` for the call, by a single setting or a preset; `preset` for the preset of the file; `project` and `user`
    for their config files."""
    line: int | None = None
    """Line of the key, or of `preset`, in the file or the config file."""
    preset: Preset | None = None
    """Preset that set the value, whether named by the call, by the file or by a config file."""
    path: Path | None = None
    """Config file; None for the other sources."""

    def __str__(self) -> str:
        """Return `line 5`, `preset finalize`, `--preset finalize`, `pyproject.toml:5`, `default` or the like."""
        if self.path:
            preset = f"preset {self.preset}, " if self.preset else ""
            return f"{preset}{self.path.name}:{self.line}"
        if self.preset:
            return f"{'--' if self.source == 'flag' else ''}preset {self.preset}"
        return f"line {self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class ResolvedSettings:
    """Resolved settings of one run."""

    settings: Specialist
    """Effective values; `model_fields_set` contains those set by the call, the file or a preset."""
    origins: Mapping[str, Origin]
    """Origins of the values that are not defaults, by key; parts of the countdown by `countdown.from` and so on."""

    def origin(self, key: str) -> Origin:
        """Return the origin of the value of a key."""
        return self.origins.get(key, Origin("default"))


_Layer = tuple[Specialist, Callable[[str], Origin]]


def resolve(file: SpecialistFile, overrides: Mapping[str, Any], *, strict: bool = False) -> ResolvedSettings:
    """Return the settings of a run.

    overrides: Settings of the call by canonical key, including `preset`. None means no limit; a preset of None is
        ignored.
    strict: Reject files with warnings, too.
    Raises SpecialistUnusable for a file that cannot be run, UsageError for an invalid setting.
    """
    file = file.strict() if strict else file
    if file.specialist is None:
        raise SpecialistUnusable("\n".join(str(problem) for problem in file.problems if problem.level == "error"))
    call = checked({key: value for key, value in overrides.items() if (key, value) != ("preset", None)})
    by_file: _Layer = (file.specialist, lambda key: Origin("file", file.lines.get(key)))
    by_call: _Layer = (call, lambda key: Origin("flag", None, call.preset if key == "preset" else None))
    if call.preset:
        layers = [by_file, _layer(call.preset, Origin("flag", None, call.preset)), by_call]
    elif named := file.specialist.preset:
        layers = [_layer(named, Origin("preset", file.lines.get("preset"), named)), by_file, by_call]
    else:
        layers = [by_file, by_call]
    values, origins = _merged([*_default_layers(file, call), *layers])
    return ResolvedSettings(file.specialist.model_copy(update=values), origins)


def overridden(settings: Specialist, overrides: Mapping[str, Any]) -> Specialist:
    """Return resolved settings with those of a call applied; a preset among them replaces the previous one.

    Raises UsageError for an invalid setting.
    """
    call = checked({key: value for key, value in overrides.items() if (key, value) != ("preset", None)})
    by: Callable[[str], Origin] = lambda _: Origin("flag")  # noqa: E731 - origins are of no interest here
    layers: list[_Layer] = [(settings, by)]
    if call.preset:
        layers = [(_without_preset(settings), by), (checked(PRESETS[call.preset]), by)]
    values, _ = _merged([*layers, (call, by)])
    dropped = layers[0][0]
    return dropped.model_copy(update=values)


def _without_preset(settings: Specialist) -> Specialist:
    """Return settings with the default in place of each value that the preset has set."""
    if settings.preset is None:
        return settings
    preset = checked(PRESETS[settings.preset])
    set_by_it = {key for key in preset.model_fields_set if getattr(preset, key) == getattr(settings, key)}
    defaults = {key: Specialist.model_fields[key].get_default(call_default_factory=True) for key in set_by_it}
    without = settings.model_copy(update=defaults)
    without.model_fields_set.difference_update(set_by_it)
    return without


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


def _default_layers(file: SpecialistFile, call: Specialist) -> list[_Layer]:
    """Return the layers of the config files: the preset, unless the call or the file names one, then the keys."""
    given = dict(file.defaults)
    if call.preset or (file.specialist and file.specialist.preset):
        given.pop("preset", None)
    if not given:
        return []

    def origin(key: str, preset: Preset | None = None) -> Origin:
        default = given[key]
        return Origin(default.scope, default.line, preset, default.path)

    keys = checked({key: default.value for key, default in given.items()})
    by_keys: _Layer = (keys, lambda key: origin(key, keys.preset if key == "preset" else None))
    return [*([_layer(keys.preset, origin("preset", keys.preset))] if keys.preset else []), by_keys]


def _layer(preset: Preset, origin: Origin) -> _Layer:
    return checked(PRESETS[preset]), lambda _: origin


def _merged(layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[str, Origin]]:
    """Merge layers, lowest precedence first; the countdown is merged key by key."""
    values: dict[str, Any] = {}
    countdown: dict[str, Any] = {}
    origins: dict[str, Origin] = {}
    for partial, origin in layers:
        for key in partial.model_fields_set - {"countdown"}:
            values[key] = getattr(partial, key)
            origins[key] = origin(key)
        for inner in partial.countdown.model_fields_set if "countdown" in partial.model_fields_set else ():
            countdown[inner] = getattr(partial.countdown, inner)
            origins[f"countdown.{inner.rstrip('_')}"] = origin("countdown")
    return values | ({"countdown": Countdown(**countdown)} if countdown else {}), origins


def _message(settings: Mapping[str, Any], error: ValidationError) -> str:
    first = error.errors()[0]
    key, *inside = map(str, first["loc"])
    inner = inside[0] if key == "countdown" and inside else None
    expected_value = expected(key, inner)
    if inner and not expected_value:
        return f"{key}.{inner}: unknown key"
    found = first["input"] if inner else settings[key]
    rule = f"must be {expected_value.phrase}" if expected_value else first["msg"]
    hint = expected_value.hint(found) if expected_value else ""
    return f"{key}{f'.{inner}' if inner else ''}: {rule}, got {found!r}{hint}"
