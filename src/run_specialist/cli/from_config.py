"""Use the values of config files for options that were not given."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypedDict, Unpack

import typer

from run_specialist.cli.console import guarded, say, say_allowed

if TYPE_CHECKING:
    from run_specialist.api.runner import Runner
    from run_specialist.config.config import Config
    from run_specialist.record.journal import OnLost
    from run_specialist.specialist.defaults import Defaults
    from run_specialist.specialist.registry import Registry


class RunnerOptions(TypedDict, total=False):
    """Arguments of `Runner` that config files do not affect."""

    root: Path | None
    model: str | None
    store: str | None
    on_lost: "OnLost"
    trust: bool
    requests_at_once: int | None
    secrets: Sequence[str]
    dry_run: bool


def personal(key: str) -> Callable[[typer.Context, typer.CallbackParam, Any], Any]:
    """Return an option callback that uses the value of the user's config file if the option was not given.

    key: a key that the config file of a project cannot set.
    """

    def choose(context: typer.Context, option: typer.CallbackParam, given: Any) -> Any:  # noqa: ANN401 - as the option
        if context.resilient_parsing or _is_given(context, option):
            return given
        with guarded():
            from run_specialist.config.config import read_user_config  # noqa: PLC0415 - fast `--help`

            found = read_user_config().get(key)
            return given if found is None else found

    return choose


def _is_given(context: typer.Context, option: typer.CallbackParam) -> bool:
    source = context.get_parameter_source(option.name or "")
    return source is not None and source.name != "DEFAULT"


def config_for_run(root: Path | None, model: str | None, *, trust: bool, quiet: bool = False) -> "Config":
    """Return the config of the current folder's project, after checking that a run may use its model.

    root: the folder of `--root`; if it is the project, its owner does not matter.
    model: the model of the command line, if any.
    Raises NotTrusted if the user has to allow the model first.
    """
    from run_specialist.config.config import read_config  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import is_same, project_root  # noqa: PLC0415 - fast `--help`

    named = None if root is None else root.absolute()
    project = project_root(Path.cwd(), named)
    config = read_config(project, meant=is_same(project, named))
    warnings = (*config.ignored, *config.capped)
    chosen = config.values.get("model")
    if not model and chosen is not None and chosen.scope == "project":
        from run_specialist.config.project_model import check_chosen_model  # noqa: PLC0415 - loads the providers
        from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - as above

        warnings += check_chosen_model(config, Trust(given=trust, on_allowed=None if quiet else say_allowed))
    for warning in () if quiet else warnings:
        say(f"warning: {warning}")
    return config


def configured_runner(
    config: "Config",
    *,
    dir_: Path | None,
    strict: bool | None,
    require_model: bool,
    **options: Unpack[RunnerOptions],
) -> "Runner":
    """Return a runner that uses the values of config files where no option was given.

    dir_, strict, require_model: the options `--dir`, `--strict` and `--require-model`.
    options: the other arguments of `Runner`.
    """
    from run_specialist.api.runner import Runner  # noqa: PLC0415 - fast `--help`

    return Runner(
        dir=dir_ or config.get("dir"),
        strict=bool(config.get("strict") if strict is None else strict),
        require_model=require_model or None,
        defaults=config.defaults,
        **options,
    )


@dataclass(frozen=True)
class ConfiguredProject:
    """The specialists of a project, with the settings of its config files."""

    registry: "Registry"
    dir: Path | None
    """The folder of `--dir`, otherwise that of the config files."""
    defaults: "Defaults"


def configured_project(project: Path, dir_: Path | None, *, meant: bool) -> ConfiguredProject:
    """Return the specialists of a project, with the folder and the settings of its config files.

    dir_: the folder of `--dir`.
    meant: whether the user named the project.
    """
    from run_specialist.config.config import read_config  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.registry import Registry, places  # noqa: PLC0415 - fast `--help`

    config = read_config(project, meant=meant)
    folder, defaults = dir_ or config.get("dir"), config.defaults
    return ConfiguredProject(
        Registry(places(project, folder, meant=meant), defaults=defaults.settings), folder, defaults
    )


def registry_in(project: Path, dir_: Path | None, *, meant: bool) -> "Registry":
    """Return the specialists alone; the arguments are those of `configured_project`."""
    return configured_project(project, dir_, meant=meant).registry
