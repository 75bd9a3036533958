"""Options that several commands share, and their defaults from config files."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, get_args

import typer

from run_specialist.cli.console import OutputFile, complete_names, fail, guarded, say, say_allowed
from run_specialist.cli.help import flag, option
from run_specialist.errors import UsageError

if TYPE_CHECKING:
    from run_specialist.api.config_files import Config
    from run_specialist.api.runner import Runner
    from run_specialist.spawning.trust import Claim
    from run_specialist.specialist.fields import Specialist
    from run_specialist.specialist.loader import Defaults, SpecialistFile
    from run_specialist.specialist.registry import Registry


def personal(context: typer.Context, option: typer.CallbackParam, given: Any) -> Any:  # noqa: ANN401 - as the option
    """Return the value of an option, or that of the user's config file if the option was not given.

    option: named like a key that the config file of a project cannot set.
    """
    name = option.name or ""
    source = context.get_parameter_source(name)
    if context.resilient_parsing or (source is not None and source.name != "DEFAULT"):
        return given
    with guarded():
        from run_specialist.api.config_files import read_config  # noqa: PLC0415 - fast `--help`

        found = read_config(None).get(name)
        return given if found is None else found


def config_for_run(root: Path | None, model: str | None, *, trust: bool, quiet: bool = False) -> "Config":
    """Return the config of the current folder's project, after checking that a run may use its model.

    root: the folder of `--root`; if it is the project, its owner does not matter.
    model: the model of the command line, if any.
    Raises NotTrusted if the user has to allow the model first.
    """
    from run_specialist.api.config_files import read_config  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import is_same, project_root  # noqa: PLC0415 - fast `--help`

    named = None if root is None else root.absolute()
    project = project_root(Path.cwd(), named)
    config = read_config(project, meant=is_same(project, named))
    warnings = (*config.ignored, *config.capped)
    chosen = config.values.get("model")
    if not model and chosen is not None and chosen.scope == "project":
        from run_specialist.api.config_files import check_chosen_model  # noqa: PLC0415 - loads the providers
        from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - loads the providers

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
    **options: Any,  # noqa: ANN401 - as Runner takes them
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


def configured_project(project: Path, dir_: Path | None, *, meant: bool) -> tuple["Registry", Path | None, "Defaults"]:
    """Return the specialists of a project, with the folder and the settings of its config files.

    dir_: the folder of `--dir`.
    meant: whether the user named the project.
    """
    from run_specialist.api.config_files import read_config  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.project import places  # noqa: PLC0415 - fast `--help`
    from run_specialist.specialist.registry import Registry  # noqa: PLC0415 - fast `--help`

    config = read_config(project, meant=meant)
    folder, defaults = dir_ or config.get("dir"), config.defaults
    return Registry(places(project, folder, meant=meant), defaults=defaults.settings), folder, defaults


def setting(text: str) -> int | float | str:
    """Return the text of an option as a YAML value: a number if it is one, otherwise the text."""
    if not re.fullmatch(r"[0-9]{1,18}(\.[0-9]{1,18})?", text):
        return text
    return float(text) if "." in text else int(text)


def settings(**given: str | bool | None) -> dict[str, Any]:
    """Return the options that were given, by key."""
    return {key: setting(one) if isinstance(one, str) else one for key, one in given.items() if one is not None}


def check_key(key: str, text: str | None) -> str | None:
    """Return the text of an option; raises BadParameter if it is not None and no valid value of a key."""
    if text is not None:
        from run_specialist.specialist.settings import checked  # noqa: PLC0415 - fast `--help`

        try:
            checked({key: setting(text)})
        except UsageError as error:
            raise typer.BadParameter(str(error).removeprefix(f"{key}: ")[:500]) from None
    return text


def of_key(option: typer.CallbackParam, text: str | None) -> str | None:
    """Return the text of an option that is named like a key; raises the errors of `check_key`."""
    return check_key(option.name or "", text)


def quiet_option(help_: str) -> Any:  # noqa: ANN401 - as `option`
    """Return the field of the option `--quiet`, which the user's config file can set."""
    return flag(help_, "-q/--no-quiet", show_default=False, callback=personal)


def words_of(key: str) -> list[str]:
    """Return the words that are values of a key, for shell completion."""
    from run_specialist.specialist.fields import Specialist  # noqa: PLC0415 - fast `--help`

    kind = Specialist.model_fields[key].annotation
    return [word for one in (kind, *get_args(kind)) for word in get_args(one) if isinstance(word, str)]


def key_option(metavar: str, help_: str, words: Callable[[], Sequence[str]] | None = None) -> Any:  # noqa: ANN401 - as `typer.Option`
    """Return an option for the key with its name; `words` are for shell completion."""
    return typer.Option(metavar=metavar, callback=of_key, autocompletion=words, help=help_)


_key = partial(option, callback=of_key)


def _word(key: str, help_: str) -> Any:  # noqa: ANN401 - as `option`
    """Return the field of an option for a key whose values are words."""
    return _key("HOW", help_, autocompletion=lambda: words_of(key))


def one_of_words(words: Sequence[str]) -> Callable[[str], str]:
    """Return a parser of options that accepts only these words; hyphens become underscores, as in Python."""

    def parse(text: str) -> str:
        # Also in the form that Python uses, as in a default.
        if text.replace("_", "-") not in words:
            raise typer.BadParameter(f"{text!r} is not one of {', '.join(words)}")
        return text.replace("-", "_")

    return parse


_name = partial(
    typer.Argument, metavar="NAME", help="Name of the specialist, or path of its file.", autocompletion=complete_names
)
SpecialistName = Annotated[str, _name()]
AnySpecialist = Annotated[str | None, _name(show_default=False)]
_DIR = "Folder of specialist files, searched before the default folders."
Dir = Annotated[Path | None, typer.Option("--dir", metavar="FOLDER", help=_DIR)]
_FILES_ROOT = "Folder that the file tools can read.  [default: the project root]"
FilesRoot = Annotated[Path | None, typer.Option("--root", metavar="FOLDER", help=_FILES_ROOT)]
_PROJECT_ROOT = "Project to search for specialists.  [default: the project root]"
ProjectRoot = Annotated[Path | None, typer.Option("--root", metavar="FOLDER", help=_PROJECT_ROOT)]
Model = Annotated[
    str | None,
    typer.Option(
        "--model",
        metavar="MODEL",
        help="Such as sonnet, haiku, `openai:ID` or `offline`; also opus, fable, a full id, or a local one: "
        "`ollama:NAME`, `lmstudio:NAME`, `llamacpp:`, `vllm:NAME`, `local:FILE`; several with commas.",
    ),
]
RequireModel = Annotated[
    bool,
    typer.Option(
        "--require-model",
        callback=personal,
        help="Refuse to answer offline, without a language model.  [env var: SPECIALIST_REQUIRE_MODEL]",
    ),
]
ToolCallsLimit = Annotated[str | None, key_option("N|none", "Maximum number of tool calls.")]
_PRESET = "Predefined settings: soft-landing, soft-warning, finalize, budget-notice or openai-loop."
PresetName = Annotated[str | None, key_option("NAME", _PRESET, lambda: words_of("preset"))]
StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        callback=personal,
        help="Store of runs: a file, sqlite:///FILE, postgresql://... or none.  [default: a file in the user's data "
        "directory]",
    ),
]
OnLostFlag = Annotated[
    Any,
    typer.Option(
        "--on-lost",
        metavar="HOW",
        parser=one_of_words(("go-on", "abort")),
        callback=personal,
        autocompletion=lambda: ("go-on", "abort"),
        show_default=False,
        help="If the store fails: go-on without storing, or abort before the next request.  [default: go-on]",
    ),
]
RequestsAtOnce = Annotated[
    int | None,
    typer.Option(
        "--requests-at-once",
        metavar="N",
        min=1,
        callback=personal,
        help="Maximum number of concurrent requests to an API.  [env var: SPECIALIST_REQUESTS_AT_ONCE]",
    ),
]
_DRY_RUN = "Change no file, print the patch; --output writes it."
_SAFETY = "Project, store and safety"
DryRun = Annotated[bool, typer.Option("--dry-run", rich_help_panel=_SAFETY, help=_DRY_RUN)]
_STRICT = "Treat warnings as errors."
Strict = Annotated[bool | None, typer.Option("--strict/--no-strict", show_default=False, help=_STRICT)]
Overwrite = Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


@dataclass(frozen=True)
class OutputOptions:
    """Output."""

    json_: bool = flag("Print the outcome as one JSON object.")
    events: bool = flag("Print each event as one line of JSON.")
    output: Path | None = option(
        "FILE",
        "Write the answer to FILE; as Markdown, or as JSON with --json.",
        "-o",
        readable=False,  # its old content does not matter
    )
    quiet: bool = quiet_option("Print only the answer and errors.")
    raw: bool = flag("Print the answer as it is, on a terminal too.")

    def check(self) -> None:
        """Exit if options exclude each other, or if the file cannot be written."""
        if self.json_ and self.events:
            fail("--json and --events cannot be combined; the last event of --events contains the outcome")
        if self.raw and (self.json_ or self.events):
            fail("--raw is about the answer as text; it cannot be combined with --json or --events")
        _ = self.file

    @cached_property
    def file(self) -> OutputFile:
        """The file for the answer."""
        return OutputFile(self.output)


@dataclass(frozen=True)
class ModelOptions:
    """Model."""

    model: Model = None
    require_model: RequireModel = False
    requests_at_once: RequestsAtOnce = None


@dataclass(frozen=True)
class RunLimitOptions:
    """Limits of a run."""

    tool_calls_limit: ToolCallsLimit = None
    turns_limit: str | None = _key("N|none", "Maximum number of model replies, including the answer.")
    total_tokens_limit: str | None = _key("N|none", "Maximum number of tokens, input and output.")
    time_limit: str | None = _key("TIME|none", "Maximum time in seconds, or with a unit: 90s, 10m, 1h.")
    patience: str | None = _key(
        "TIME|none", "How long a request is retried while the API is busy or unreachable; 0 = never."
    )
    tool_chars_limit: str | None = _key("N|none", "Maximum number of characters in tool results.")

    @property
    def settings(self) -> dict[str, Any]:
        """The keys of the specialist's file that were given, with their values."""
        return settings(**{key: value or None for key, value in vars(self).items() if key not in vars(ModelOptions())})


@dataclass(frozen=True)
class LimitOptions(RunLimitOptions):
    """Limits of a run."""

    cost_limit: str | None = _key("USD|none", "Maximum cost of the model requests.")


@dataclass(frozen=True)
class HowOptions:
    """Settings of a run."""

    landing: str | None = _word("landing", "Landing at the limit: auto, force, order, schema, finalize, none or stop.")
    evidence: str | None = _word("evidence", "Quotes of the answer: off, check or require.")
    tool_calls: str | None = _word(
        "tool_calls", "Tool calls of the model: auto, native, or json constrained by the endpoint."
    )
    first_search: str | None = _word(
        "first_search", "Send the best passages of a search with the question: auto, on or off."
    )
    preset: PresetName = None


@dataclass(frozen=True)
class SettingOptions(HowOptions, LimitOptions):
    """Settings of a run."""

    server_tools: bool = flag("Let the API run the web tools named in the file; it bills searches.")


_TRUST = "Allow the commands and imports that files name; remembered until they change."
TrustFlag = Annotated[bool, typer.Option("--trust", help=_TRUST)]


@dataclass(frozen=True)
class ProjectOptions:
    """Project, store and safety."""

    dir_: Dir = None
    root: FilesRoot = None
    store: StoreUrl = None
    on_lost: OnLostFlag = "go_on"
    strict: Strict = None
    trust: TrustFlag = False


def trust_status(file: "SpecialistFile", settings: "Specialist", root: Path) -> tuple[bool | None, str]:
    """Return whether a file is trusted, and the status as a line; `(None, "")` if the file needs no trust."""
    from run_specialist.spawning.extra_tools import wanted_by  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.prompt_texts import skills_claim  # noqa: PLC0415 - fast `--help`
    from run_specialist.spawning.trust import RunContext, model_claims  # noqa: PLC0415 - fast `--help`

    try:
        context = RunContext(file, settings, root)
        claims = [wanted_by(context).claim, *model_claims(context), skills_claim(context)]
    except UsageError as error:
        return False, f"not trusted: {error}"
    return trust_of("it", claims)


def trust_of(subject: str, claims: Sequence["Claim"]) -> tuple[bool | None, str]:
    """Return whether all claims are trusted, and a line about it; `(None, "")` if they demand nothing."""
    from run_specialist.spawning.trust import Trust  # noqa: PLC0415 - fast `--help`

    demands = ", ".join(demand.action for claim in claims for demand in claim.demands)
    if not demands:
        return None, ""
    if all(Trust().is_known(claim) for claim in claims):
        return True, f"trusted: {subject} may {demands}"
    return False, f"not trusted: {subject} would {demands}; to allow this, run it once with --trust"
