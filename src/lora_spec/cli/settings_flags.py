"""The types of the scripts' JSON flags where a flag joins several blocks of the config files."""

from typing_extensions import TypedDict

from lora_spec.config.adapter_families import FamilyKind
from lora_spec.config.adapter_pool import Adapter
from lora_spec.config.base_profile import BaseProfileConfig
from lora_spec.config.baselines import BaselinesConfig
from lora_spec.config.distillation import DistillationConfig
from lora_spec.config.fields import OpenFraction, PositiveCount, RepoId, Revision, Seed, Text
from lora_spec.config.gate import GateConfig
from lora_spec.config.models import EngineConfig, ShippedLayersSource
from lora_spec.config.traffic import Pattern, TrafficConfig
from lora_spec.typed import AdapterName


class PairNames(TypedDict):
    """What all numbers hold for."""

    target_model: Text
    draft_model: Text
    engine: Text


class EngineNames(TypedDict):
    """What step times must have been measured with."""

    vllm: Text
    dtype: Text
    target: Text
    drafter: Text


class CostFitSettings(TypedDict):
    """How step times are fitted."""

    num_uncertainty_draws: PositiveCount
    seed: Seed


class PredictorSettings(TypedDict):
    """How the predictor is fitted; ``domains`` maps an adapter to the group that a split leaves out whole."""

    gate: GateConfig
    domains: dict[AdapterName, Text]
    context: PairNames


class CertificationSettings(TypedDict):
    """How predicted verdicts are judged; ``domains`` maps an adapter that is judged to its source."""

    gate: GateConfig
    domains: dict[AdapterName, Text]


class ComparisonSettings(PredictorSettings):
    """The same to compare predictors: ``scored`` names the adapters that count, ``setup`` is the figure's last line."""

    scored: list[AdapterName]
    setup: Text


class UnseenFamiliesSettings(PredictorSettings):
    """The same to leave whole families out: ``families`` maps an adapter to its family by kind."""

    scored: list[AdapterName]
    families: dict[AdapterName, dict[FamilyKind, Text]]


class MixTraffic(TypedDict):
    """What mixes take from ``traffic.yaml``: how popular adapters are, and how long answers."""

    patterns: list[Pattern]
    output_tokens: PositiveCount


class GateRegretSettings(TypedDict):
    """How policies are held against the oracle over mixes; ``scored`` names the adapters that mixes are drawn from."""

    gate: GateConfig
    baselines: BaselinesConfig
    traffic: MixTraffic
    context: PairNames
    scored: list[AdapterName]
    setup: Text


class DrafterSettings(TypedDict):
    """How a drafter is distilled."""

    source: ShippedLayersSource
    training: DistillationConfig


class HubCommit(TypedDict):
    """A repository of the hub at one commit, or at none yet."""

    repo: RepoId
    revision: Revision | None


class BaseProfileSettings(TypedDict):
    """What is recorded of a base target, and which pair it is of."""

    base_profile: BaseProfileConfig
    context: PairNames


class SimulationSettings(TypedDict):
    """What the simulated grid needs beside results; ``ranks`` maps an adapter to its rank."""

    traffic: TrafficConfig
    baselines: BaselinesConfig
    engine: EngineConfig
    ranks: dict[AdapterName, PositiveCount]
    level: OpenFraction
    setup: Text


class StudySettings(TypedDict):
    """What the tables need beside the results; ``pool`` maps an adapter's name to its row."""

    tier: Text
    setup: Text
    pool: dict[AdapterName, Adapter]
    gate: GateConfig
