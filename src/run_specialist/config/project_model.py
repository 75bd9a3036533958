"""Trust in a model that a project sets for all specialists: its server reads the question and the files."""

import hashlib
from pathlib import Path

from run_specialist.config.config import Config
from run_specialist.config.config_places import near
from run_specialist.errors import NotTrusted
from run_specialist.providers.choose import OPENAI
from run_specialist.providers.endpoint import CHAT
from run_specialist.providers.local.local_servers import WEIGHTS, prefix_of
from run_specialist.record.outcome import OFFLINE
from run_specialist.spawning.model_trust import to_ask, to_load
from run_specialist.spawning.trust import Claim, Demand, Trust
from run_specialist.specialist.defaults import Default
from run_specialist.specialist.model_list import split_models

_MESSAGES = ""
"""Server of models whose names have no prefix."""


def check_chosen_model(config: Config, trust: Trust) -> tuple[str, ...]:
    """Check that the model set by the config files may be used; return warnings.

    Not needed for a run whose model is given on the command line.
    Raises NotTrusted if the user has to allow it first.
    """
    claim = model_claim(config)
    try:
        return () if claim is None else trust.check(claim)
    except NotTrusted as error:
        raise NotTrusted(f"{error}; or choose a model with --model") from None


def model_claim(config: Config) -> Claim | None:
    """Return the permission that the project's choice of a model requires; None if it requires none.

    A project may freely choose another model of the default server, or no model at all.
    """
    chosen, project = config.values.get("model"), config.project
    if config.get("model") is None or chosen is None or chosen.scope != "project" or chosen.value == OFFLINE:
        return None
    if project is None:
        return None
    own = next((file.values["model"] for file in config.files if file.scope == "user" and "model" in file.values), None)
    named = str(chosen.value)
    usual = {_MESSAGES} if own is None else set(map(server_of, split_models(own.value)))
    if named == (own and own.value):
        return None
    servers = {model: server_of(model) for model in split_models(named) if model != OFFLINE}
    asked = {model: server for model, server in servers.items() if server not in usual or server == WEIGHTS}
    demands = [_demand(chosen, model, server, project) for model, server in asked.items()]
    required = tuple(demand for demand in demands if demand is not None)
    digest = hashlib.sha256(f"model={named}".encode()).hexdigest()
    return Claim(chosen.path, digest, project, required) if required else None


def server_of(model: str) -> str:
    """Return the prefix of a model, which determines the server; `offline` for no server."""
    if model == OFFLINE:
        return OFFLINE
    return OPENAI if model.startswith(OPENAI) else prefix_of(model) or _MESSAGES


def _demand(chosen: Default, model: str, server: str, project: Path) -> Demand | None:
    place = f"{near(chosen.path)}:{chosen.line}: model"
    if server == WEIGHTS:
        return to_load(place, model, project, own=False)
    if prefix_of(model):
        return to_ask(place, server, own=False)
    title = "a server of chat completions" if server == OPENAI else "a server of the Messages API"
    variable = f" ({CHAT.url}, or the vendor)" if server == OPENAI else ""
    action = f"send the questions and the tool results to {title}{variable}, as the model {model}"
    return Demand(place, action, server or "messages")
