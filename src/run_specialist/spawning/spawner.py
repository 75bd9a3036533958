"""Build the job of a new run from a specialist's file and a question: tools, system prompt, budget, settings."""

import os
import secrets
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import partial

from run_specialist import prompts
from run_specialist.budget.budget import Budget, Kind
from run_specialist.errors import UsageError
from run_specialist.loop.compaction.summarizer import Summarizer
from run_specialist.loop.executed import Augmenter
from run_specialist.loop.job import Job
from run_specialist.loop.tool_calls.countdown import countdown, warning
from run_specialist.providers.base import Opening, Provider
from run_specialist.providers.choose import keys_of
from run_specialist.providers.model_chain import ModelChain, models_of
from run_specialist.record.messages import Usage, encode
from run_specialist.redaction import credentials
from run_specialist.spawning.chosen_tools import choose_tools, unmatched_tools
from run_specialist.spawning.context_shares import fit_to_context
from run_specialist.spawning.origin import origin
from run_specialist.spawning.run_environment import RunEnvironment
from run_specialist.spawning.server_share import reserved
from run_specialist.specialist.fields import Countdown, Specialist
from run_specialist.specialist.json_schema.answer_schema import AnswerSchema
from run_specialist.specialist.json_schema.evidence_shape import NEEDS_QUOTES, has_quotes
from run_specialist.specialist.loader import SpecialistFile
from run_specialist.tools.archive import Archive, get_tool_response_tool
from run_specialist.tools.base import Toolset
from run_specialist.tools.respond import respond_tool

LIMITS = {kind.key: kind for kind in Kind}
"""Front matter keys that limit a run, each with the kind of spending that it limits."""


def spawn(file: SpecialistFile, settings: Specialist, question: str, environment: RunEnvironment) -> Job:
    """Return the job of a new run.

    Raises UsageError if none of the file's tools exists, and for a cost limit or an answer schema that cannot be
    enforced.
    """
    warnings = _warnings(file, settings, environment)
    provider = environment.provider
    _check_cost_limit(file, settings, provider)
    budget = Budget.of({kind: getattr(settings, key) for key, kind in LIMITS.items()}, settings.countdown.from_)
    schema, archive = answer_schema(file, settings), Archive()
    _check_evidence(file, settings, schema)
    prompt = environment.prompt_texts.added_to(settings.prompt)
    system = prompts.system(prompt, budget, budget_notice=settings.budget_notice)
    given = settings
    texts = (system, question)
    fitted = fit_to_context(given, provider.capabilities, lambda: _front_chars(texts, file, given, environment, schema))
    settings = fitted.settings
    tools = [*choose_tools(file, settings, environment).tools]
    if not provider.capabilities.is_language_model:
        settings = settings.model_copy(update={"summarize_at": None})
    uses_archive = settings.summarize_at is not None or _has_added_tools(environment) or environment.keeps_archive
    if uses_archive:
        tools.append(get_tool_response_tool(archive, settings.tool_result_limit))
    toolset = Toolset([*tools, respond_tool(schema)])
    return Job(
        run_id=new_run_id(),
        settings=settings,
        question=question,
        opening=Opening(system, toolset, settings.effort, settings.tool_calls),
        provider=provider,
        budget=reserved(budget, toolset),
        seconds=environment.seconds,
        answer_schema=schema,
        archive=archive if uses_archive else None,
        turn_chars=fitted.turn_chars,
        longest_history=fitted.longest_history,
        summarizer=_summarizer(settings, provider, archive),
        augmenters=(*environment.augmenters, *_budget_augmenters(settings.countdown)),
        parent_id=environment.parent.run_id if environment.parent else None,
        warnings=(*warnings, *fitted.warnings),
        context_warnings=fitted.warnings,
        secrets=(*credentials(os.environ), *keys_of(provider), *environment.extra_tools.secrets, *environment.secrets),
        patch=environment.patch.text if environment.patch and not environment.parent else None,
        origin=partial(origin, file, given, schema, environment, [*warnings, *fitted.warnings]),
    )


def _warnings(file: SpecialistFile, settings: Specialist, environment: RunEnvironment) -> list[str]:
    problems = [problem for problem in file.problems if problem.level == "warning"]
    # The call may allow tools that the file does not allow.
    warnings = [str(problem) for problem in problems if problem.key != "server_tools" or not settings.server_tools]
    warnings += [
        *environment.extra_tools.warnings,
        *environment.prompt_texts.warnings,
        *unmatched_tools(file, settings, environment),
    ]
    if isinstance(environment.provider, ModelChain):
        warnings += environment.provider.warnings
    return warnings


def _has_added_tools(environment: RunEnvironment) -> bool:
    """Return whether the run may have tools that are not built in."""
    extra_tools = environment.extra_tools
    return bool(environment.tools or extra_tools.functions or extra_tools.served or environment.delegate)


def new_run_id(mark: str = "") -> str:
    """Return a unique id.

    mark: suffix of the id, which is shortened by it, so that a listing has room for both.
    """
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(4 if mark else 5)}{mark}"


def _front_chars(
    texts: Sequence[str],
    file: SpecialistFile,
    settings: Specialist,
    environment: RunEnvironment,
    schema: AnswerSchema | None,
) -> int:
    """Return the length of the constant part of all requests: some texts and all possible tools [characters]."""
    tools = [
        *choose_tools(file, settings, environment).tools,
        get_tool_response_tool(Archive(), 1),
        respond_tool(schema),
    ]
    return sum(map(len, texts)) + sum(len(encode(tool.definition)) for tool in tools)


def _check_cost_limit(file: SpecialistFile, settings: Specialist, provider: Provider) -> None:
    """Raise UsageError for a cost limit if the price of any model is unknown."""
    unpriced = next((one.model for one in models_of(provider) if one.cost(Usage(1)) is None), None)
    if settings.cost_limit is not None and unpriced is not None:
        raise UsageError(
            f"{_place_of(file, 'cost_limit')}: the price of {unpriced} is unknown, so its cost cannot be "
            "limited; remove cost_limit, or set total_tokens_limit instead"
        )


def _check_evidence(file: SpecialistFile, settings: Specialist, schema: AnswerSchema | None) -> None:
    """Raise UsageError if answers must have quotes, but their schema has no field for them."""
    if settings.evidence == "require" and schema is not None and not has_quotes(schema.schema):
        place = next((f"{file.place(key)}: " for key in ("evidence", "output_schema") if key in file.lines), "")
        raise UsageError(f"{place}evidence: {NEEDS_QUOTES}")


def answer_schema(file: SpecialistFile, settings: Specialist) -> AnswerSchema | None:
    """Return the schema of the answer; None for text.

    Raises UsageError for a schema that cannot be read or used.
    """
    if settings.output_schema is None:
        return None
    try:
        # A path from the program may lead anywhere; one from a project's file must stay in the project.
        by_file = file.specialist is not None and settings.output_schema == file.specialist.output_schema
        return AnswerSchema.load(settings.output_schema, file.path.parent, file.project if by_file else None)
    except ValueError as error:
        raise UsageError(f"{_place_of(file, 'output_schema')}: {error}") from None


def _summarizer(settings: Specialist, provider: Provider, archive: Archive) -> Summarizer | None:
    if not provider.capabilities.is_language_model:
        return None
    return Summarizer(provider, archive, settings.summarize_at, settings.context_target, settings.summary_limit)


def _budget_augmenters(settings: Countdown) -> list[Augmenter]:
    """Return the augmenters that show the budget: the warning, then the countdown as the last line."""
    warnings = [] if settings.warn_at is None else [warning(settings.warn_at)]
    is_silent = settings.from_ is None or settings.style == "json"
    return [*warnings, *([] if is_silent else [countdown(settings.style)])]


def _place_of(file: SpecialistFile, key: str) -> str:
    """Return a key with its place in the file; only the key if the caller set it."""
    return f"{file.place(key)}: {key}" if key in file.lines else key
