"""Keys of a specialist file: canonical names, aliases, and keys of other programs that have no effect here."""

import difflib
import re

CANONICAL = (
    "name",
    "description",
    "tools",
    "paths",
    "disallowed_tools",
    "model",
    "fallback_models",
    "effort",
    "tool_calls_limit",
    "turns_limit",
    "total_tokens_limit",
    "cost_limit",
    "time_limit",
    "patience",
    "tool_chars_limit",
    "parallel_tools_limit",
    "tool_timeout",
    "tool_result_limit",
    "tool_calls",
    "landing",
    "landing_prompt",
    "evidence",
    "offline",
    "budget_notice",
    "countdown",
    "summarize_at",
    "context_target",
    "summary_limit",
    "output_schema",
    "agents",
    "share_budget",
    "disable_model_invocation",
    "mcp_servers",
    "required_mcp_servers",
    "skills",
    "project_instructions",
    "memory",
    "python_tools",
    "allowed_domains",
    "server_tools",
    "writable",
    "preset",
)

# In snake_case; camelCase and kebab-case are converted before the lookup.
ALIASES = {
    "fallback_model": "fallback_models",
    "max_tool_calls": "tool_calls_limit",
    "tool_call_limit": "tool_calls_limit",
    "max_turns": "turns_limit",
    "max_steps": "turns_limit",
    "steps": "turns_limit",
    "max_cost_usd": "cost_limit",
    "timeout": "time_limit",
    "timeout_mins": "time_limit",
    "max_total_chars": "tool_chars_limit",
    "max_parallel_tools": "parallel_tools_limit",
    "max_token": "summarize_at",
    "context_token_limit": "context_target",
    "summary_token_limit": "summary_limit",
    "reasoning_effort": "effort",
    "model_reasoning_effort": "effort",
    "thinking_level": "effort",
    "inherit_project_context": "project_instructions",
}

# Restrictions of other programs that hold here too, as long as all tools only read; None = by any value.
KEPT_BY_READING = {
    "isolation": None,
    "permission_mode": "plan",
    "read_only": None,
    "readonly": None,
    "sandbox": None,
    "sandbox_mode": None,
}

# Other programs restrict an agent by these keys. They have no effect here, so each gets a warning.
RESTRICTING = frozenset(
    """
    allowed_tools approval_mode blocked_tools denied_tools deny_tools exclude_tools excluded_tools hooks isolation
    permission permission_mode permissions readonly read_only sandbox sandbox_mode
    """.split()  # noqa: SIM905
)

# Keys of other programs, accepted without effect.
INERT = RESTRICTING | frozenset(
    """
    agent aliases always_apply apply_to argument_hint arguments author auto_load
    autoload background capabilities categories category color colour command compatibility context created date
    default_context default_progress default_reads dependencies disable disabled display_name domain
    emoji enabled examples expertise expertise_level extends globs handoffs hidden icon id
    include_mcp_json infer inherit_skills initial_prompt input inputs is_background keyboard_shortcut
    keywords kind language last_updated license max_output_tokens max_tokens metadata mode model_provider
    model_reasoning_summary model_verbosity nickname_candidates omit_claude_md output outputs
    owner priority proactive prompt provider reasoning requires role scope skill source
    specialization status subagent_type system_prompt system_prompt_mode tags target temperature text_verbosity
    thinking title tool_aliases tool_choice tools_settings top_k top_p triggers type updated
    use_when user_invocable user_invokable variant version voice_id welcome_message when_to_use whento_use
    """.split()  # noqa: SIM905, a list of a hundred quoted words is harder to read
)

# Keys that are also common before a colon in prose and examples.
_PROSE = frozenset(
    """
    agent arguments command context date domain emoji examples expertise id input inputs language output outputs
    owner prompt provider reasoning requires role scope source status title triggers type
    """.split()  # noqa: SIM905
)

_HUMP = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_LONGEST_SUGGESTED = 40


def canonical(key: str) -> str:
    """Return the canonical form of a key: converted to snake_case, aliases resolved."""
    snake = _HUMP.sub("_", key.strip()).replace("-", "_").lower()
    return ALIASES.get(snake, snake)


def is_known(key: str) -> bool:
    """Return whether a key, in any spelling, belongs to this program or to another known one."""
    folded = canonical(key)
    return folded in _CANONICAL or folded in INERT


def starts_field_in_prose(key: str) -> bool:
    """Return whether `key:` at the start of a line ends the field before it, even a description."""
    return key[:1].islower() and is_known(key) and canonical(key) not in _PROSE


def nearest(key: str) -> str | None:
    """Return the most similar canonical key, or None."""
    folded = canonical(key)
    if len(folded) > _LONGEST_SUGGESTED:
        return None
    close = difflib.get_close_matches(folded, _CANDIDATES, n=1, cutoff=0.75)
    return ALIASES.get(close[0], close[0]) if close else None


_CANONICAL = frozenset(CANONICAL)
_CANDIDATES = (*CANONICAL, *ALIASES)
