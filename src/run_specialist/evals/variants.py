"""The variants of an eval: files, and settings that override them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any

from run_specialist.errors import UsageError
from run_specialist.evals.eval_results import AS_IT_IS, Variant
from run_specialist.specialist.problems import shown
from run_specialist.specialist.resolve import checked

if TYPE_CHECKING:
    from run_specialist.specialist.loader import SpecialistFile


@dataclass(frozen=True)
class Subject:
    """A variant with its file and all settings."""

    variant: Variant
    file: "SpecialistFile"
    settings: Mapping[str, Any] = field(default_factory=dict)
    """All settings that override the file: those of every variant, then those of this one."""

    @property
    def model(self) -> str | None:
        """The model that the settings name; None = that of the call, of the file or of the environment."""
        return self.settings.get("model")


@dataclass(frozen=True)
class VariedKey:
    """A key of a specialist's file, and the values that it takes in the variants."""

    key: str
    values: tuple[Any, ...]


def varied(given: str) -> VariedKey:
    """Parse `KEY=VALUE,VALUE`; raises UsageError."""
    key, equals, values = (part.strip() for part in given.partition("="))
    key = key.replace("-", "_")
    if not equals or not key:
        raise UsageError(f"--vary: {shown(given)} must be KEY=VALUE,VALUE..., e.g. tool_calls_limit=8,15")
    texts = [one.strip() for one in values.split(",")]
    if not all(texts):
        raise UsageError(f"--vary: {shown(given)} has an empty value")
    found = tuple(_value(one) for one in texts)
    for one in found:
        try:
            checked({key: one})
        except UsageError as error:
            raise UsageError(f"--vary: {error}") from None
    if len(set(texts)) < len(texts):
        raise UsageError(f"--vary: {shown(given)} has a value twice")
    return VariedKey(key, found)


def subjects(
    files: "Sequence[SpecialistFile]", common: Mapping[str, Any], vary: Sequence[VariedKey]
) -> tuple[Subject, ...]:
    """Return all combinations of files and values.

    files: the specialist itself, then those to compare it with.
    common: settings of every variant.
    Raises UsageError for a key that is varied twice.
    """
    keys = [one.key for one in vary]
    if twice := next((key for key in keys if keys.count(key) > 1), None):
        raise UsageError(f"--vary: {twice} is given twice; list all its values once, {twice}=A,B")
    return tuple(_subjects(files, common, vary))


def _subjects(
    files: "Sequence[SpecialistFile]", common: Mapping[str, Any], vary: Sequence[VariedKey]
) -> Iterator[Subject]:
    for file in files:
        for values in product(*(one.values for one in vary)):
            changed = {one.key: value for one, value in zip(vary, values, strict=True)}
            words = [f"{key}={_text(value)}" for key, value in changed.items()]
            if file is not files[0]:
                words.insert(0, file.path.name if _is_alone(file, files) else str(file.path))
            variant = Variant(", ".join(words) or AS_IT_IS, str(file.path), file.digest, changed)
            yield Subject(variant, file, {**common, **changed})


def _is_alone(file: "SpecialistFile", files: "Sequence[SpecialistFile]") -> bool:
    return [one.path.name for one in files].count(file.path.name) == 1


def _value(text: str) -> Any:  # noqa: ANN401 - a value of a key
    """Return a value as YAML reads it: a number if it is one, otherwise the text."""
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def _text(value: object) -> str:
    return f"{value:g}" if isinstance(value, float) else str(value)
