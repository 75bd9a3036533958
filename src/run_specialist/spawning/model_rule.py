"""Decide whether a run may be answered offline, without a language model."""

import os
from dataclasses import dataclass

from run_specialist.errors import UsageError
from run_specialist.specialist.fields import Specialist
from run_specialist.specialist.loader import SpecialistFile

VARIABLE = "SPECIALIST_REQUIRE_MODEL"
"""Environment variable that requires a model for every run."""
_OFF = frozenset({"", "0", "false", "no", "off"})


@dataclass(frozen=True, slots=True)
class ModelRule:
    """Whether all runs require a language model, or only runs whose file requires one."""

    is_required: bool = False
    """Whether every run requires a model."""
    by: str = ""
    """The environment variable that requires it; empty if the caller does."""

    @classmethod
    def of(cls, require: bool | None) -> "ModelRule":  # noqa: FBT001 - as the argument of `Runner`
        """Return the rule for a program or a command.

        require: None = as the environment variable says, where an unclear value counts as yes.
        """
        if require is None:
            is_on = os.environ.get(VARIABLE, "").strip().lower() not in _OFF
            return cls(is_on, VARIABLE)
        return cls(require)

    def refusal(self, settings: Specialist, why: str) -> str:
        """Return why a specialist cannot be asked without a model, in one clause; empty if it can.

        why: why there is no model, and how to get one.
        """
        if settings.offline == "refuse":
            return f"its answer is a judgement (offline: refuse) and needs a model, but {why}"
        by = f" ({self.by})" if self.by else ""
        return f"a model is required{by}, but {why}" if self.is_required else ""

    def check(self, file: SpecialistFile, settings: Specialist, why: str) -> None:
        """Raise UsageError if a specialist cannot be asked without a model.

        why: as for `refusal`.
        """
        if refusal := self.refusal(settings, why):
            by_file = settings.offline == "refuse" and "offline" in file.lines
            raise UsageError(f"{file.place('offline') if by_file else settings.name}: {refusal}")
