"""Choose the models of a run: the named ones that can be asked here."""

from collections.abc import Sequence
from dataclasses import dataclass

from run_specialist.errors import UsageError
from run_specialist.providers.choose import check_credentials, named_models
from run_specialist.providers.local.local_servers import prefix_of
from run_specialist.providers.model_names import check_served
from run_specialist.record.outcome import OFFLINE


@dataclass(frozen=True, slots=True)
class ChosenModels:
    """The models of a run."""

    names: tuple[str, ...]
    """Names in the order in which they are asked; at least one."""
    left_out: tuple[str, ...] = ()
    """Why other named models are omitted, one line each."""


def choose_model(flag: str | None, file: str | None, default: str | None = None, following: Sequence[str] = ()) -> str:
    """Return the first model of a run; the arguments are those of `named_models`."""
    return choose_models(flag, file, default, following).names[0]


def choose_models(
    flag: str | None, file: str | None, default: str | None = None, following: Sequence[str] = ()
) -> ChosenModels:
    """Return the models of a run; the arguments are those of `named_models`.

    If several are named, those that cannot be asked here are omitted, unless none would remain.
    """
    names = named_models(flag, file, default, following)
    if names[0] == OFFLINE or len(names) == 1:
        return ChosenModels(names[:1])
    obstacles = {name: _obstacle(name) for name in names}
    usable = tuple(name for name in names if not obstacles[name])
    if not usable:
        return ChosenModels(names[:1])
    return ChosenModels(usable, tuple(f"{name} is left out: {why}" for name, why in obstacles.items() if why))


def _obstacle(model: str) -> str:
    """Return why one of several models cannot be asked here, without asking its server; empty if it can."""
    if model == OFFLINE:
        return "it is not a language model"
    try:
        check_usable(model)
    except UsageError as error:
        return str(error)
    return ""


def check_usable(model: str) -> None:
    """Raise UsageError if a model cannot be asked here, without contacting it.

    Raises NoCredentials if a key is missing.
    """
    check_served(model)
    if prefix_of(model) is None:
        check_credentials(model)
