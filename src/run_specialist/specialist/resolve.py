"""Whose word counts: the settings of one run, and where each comes from.

From strong to weak: a single setting of the call, the preset of the call, a key of the file, the file's preset, the
default. A preset of the call takes the place of the file's, and beats the file's keys where it names them.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

from run_specialist.errors import SpecialistUnusable, UsageError
from run_specialist.specialist.field_values import wanted
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.keys import nearest
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.specialist.presets import PRESETS, Preset
from run_specialist.specialist.problems import shown

Source = Literal["flag", "file", "preset", "default"]


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a value comes from."""

    source: Source
    """`flag` is the call itself, by a single setting or by its preset; `preset` is the one that the file names."""
    line: int | None = None
    """Line of the file: that of the key, or of `preset`."""
    preset: Preset | None = None
    """The preset that set it, whoever named it."""

    def __str__(self) -> str:
        """Return it in words: `line 5`, `preset finalize`, `--preset finalize`, `default`."""
        if self.preset:
            return f"{'--' if self.source == 'flag' else ''}preset {self.preset}"
        return f"line {self.line}" if self.line else self.source


@dataclass(frozen=True, slots=True)
class Resolved:
    """The settings of one run."""

    settings: Specialist
    """What holds; `model_fields_set` tells what somebody chose."""
    origins: Mapping[str, Origin]
    """Of each value that is not a default, by key; inside of a countdown by `countdown.from` and the like."""

    def origin(self, key: str) -> Origin:
        """Return where the value of a key comes from."""
        return self.origins.get(key, Origin("default"))


_Layer = tuple[Specialist, Callable[[str], Origin]]


def resolve(file: SpecialistFile, overrides: Mapping[str, Any], *, strict: bool = False) -> Resolved:
    """Return the settings of a run.

    overrides: the call's settings by canonical key, its `preset` among them. None means no limit; a preset of None is
        none of the call's.
    strict: also refuse a file with warnings.
    Raises SpecialistUnusable for a file that cannot be run, UsageError for a setting that makes no sense.
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
    values, origins = _merged(layers)
    return Resolved(file.specialist.model_copy(update=values), origins)


def checked(settings: Mapping[str, Any]) -> Specialist:
    """Return a specialist in which these settings are set and no other.

    Raises UsageError for the first that makes no sense: `key: wanted this, found that`.
    """
    for key in settings:
        if key not in Specialist.model_fields:
            close = nearest(key)
            raise UsageError(f"no such setting: {shown(key)}{f'; did you mean {close}?' if close else ''}")
    try:
        partial = Specialist.model_validate({"name": "", "description": "", "prompt": "", **settings})
    except ValidationError as error:
        raise UsageError(_complaint(settings, error)) from None
    partial.model_fields_set.intersection_update(settings)
    return partial


def _layer(preset: Preset, origin: Origin) -> _Layer:
    return checked(PRESETS[preset]), lambda _: origin


def _merged(layers: Sequence[_Layer]) -> tuple[dict[str, Any], dict[str, Origin]]:
    """Lay one over the other, the weakest first; of a countdown a layer replaces only the keys that it gives."""
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


def _complaint(settings: Mapping[str, Any], error: ValidationError) -> str:
    wrong = error.errors()[0]
    key, *inside = map(str, wrong["loc"])
    inner = inside[0] if key == "countdown" and inside else None
    want = wanted(key, inner)
    if inner and not want:
        return f"{key}.{inner}: no such key"
    found = wrong["input"] if inner else settings[key]
    return f"{key}{f'.{inner}' if inner else ''}: wanted {want.words if want else wrong['msg']}, found {found!r}"
