"""The parts of a `Runner`, connected to one another."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from run_specialist.api.children import Children
from run_specialist.api.model_choice import ModelChoice
from run_specialist.api.provider_pool import ProviderPool
from run_specialist.api.run_environments import RunEnvironments
from run_specialist.api.run_maker import RunMaker
from run_specialist.api.run_store import RunStore
from run_specialist.api.working_specialists import WorkingSpecialists
from run_specialist.loop.executed import Augmenter
from run_specialist.providers.base import Provider
from run_specialist.spawning.model_rule import ModelRule
from run_specialist.spawning.trust import Trust
from run_specialist.specialist.registry import Registry
from run_specialist.tools.base import Tool
from run_specialist.tools.mcp.clients import McpClients


@dataclass(frozen=True)
class AskedModel:
    """The arguments of a `Runner` that choose the model; see there."""

    model: str | None
    default: str | None
    """The model of a config file, after that of the environment."""
    provider: Provider | None
    require: bool | None


@dataclass(frozen=True)
class Given:
    """The arguments of a `Runner`, as its parts need them."""

    root: Path
    registry: Registry
    asked: AskedModel
    trust: bool
    max_depth: int
    strict: bool
    tools: Sequence[Tool]
    augmenters: Sequence[Augmenter]
    secrets: Sequence[str]


@dataclass(frozen=True)
class Wiring:
    """The parts of a `Runner`."""

    clients: McpClients
    providers: ProviderPool
    models: ModelChoice
    working: WorkingSpecialists
    environments: RunEnvironments
    maker: RunMaker


def wire(given: Given, store: RunStore, report_loading: Callable[[str], None]) -> Wiring:
    """Connect the parts; nothing is opened yet.

    report_loading: called with a line when the weights of a `local:` model begin to load.
    """
    root, registry, strict = given.root, given.registry, given.strict
    trust, clients, providers = Trust(given=given.trust), McpClients(), ProviderPool()
    asked, rule = given.asked, ModelRule.of(given.asked.require)
    models = ModelChoice(asked.model, asked.provider, providers, rule, trust, report_loading, root, asked.default)
    working = WorkingSpecialists(registry, root, models)
    children = Children(
        registry,
        root,
        models,
        lambda *child: maker.child(*child),  # noqa: PLW0108 - it is made later, of the children
        given.max_depth,
        strict=strict,
    )
    environments = RunEnvironments(registry, children, trust, clients, given.tools, given.augmenters, given.secrets)
    maker = RunMaker(root, registry, models, working, environments, store, strict=strict)
    return Wiring(clients, providers, models, working, environments, maker)
