"""A tier: the eight config files of one folder, checked each and together.

``configs/`` itself holds one tier (its ``models.yaml`` says which); every other tier is a folder below it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.config.adapter_pool import AdapterPoolConfig, TrainedAdapter
from lora_spec.config.baselines import BaselinesConfig
from lora_spec.config.fields import ConfigModel
from lora_spec.config.gate import GateConfig
from lora_spec.config.models import ModelsConfig
from lora_spec.config.phase0_runtime import Phase0RuntimeConfig
from lora_spec.config.phase1_measurement import Phase1MeasurementConfig
from lora_spec.config.prompts import PromptsConfig
from lora_spec.config.reading import read_config, read_yaml_mapping
from lora_spec.config.traffic import TrafficConfig
from lora_spec.errors import ConfigError

CONFIG_FILES: dict[str, type[ConfigModel]] = {
    "models": ModelsConfig,
    "adapter_pool": AdapterPoolConfig,
    "gate": GateConfig,
    "traffic": TrafficConfig,
    "prompts": PromptsConfig,
    "baselines": BaselinesConfig,
    "phase0_runtime": Phase0RuntimeConfig,
    "phase1_measurement": Phase1MeasurementConfig,
}
"""File stem -> its model; one module per file."""


@dataclass(frozen=True)
class Tier:
    """All settings of one tier."""

    name: str
    folder: Path
    models: ModelsConfig
    adapter_pool: AdapterPoolConfig
    gate: GateConfig
    traffic: TrafficConfig
    prompts: PromptsConfig
    baselines: BaselinesConfig
    phase0_runtime: Phase0RuntimeConfig
    phase1_measurement: Phase1MeasurementConfig

    def to_dict(self, *names: str) -> dict[str, Any]:
        """Return the named config files as plain data (all eight without a name), for provenance records."""
        return {name: getattr(self, name).to_dict() for name in names or CONFIG_FILES}

    def path_of(self, name: str) -> Path:
        """Return the path of one of the eight files."""
        return self.folder / f"{name}.yaml"


def _folders(root: Path) -> dict[str, Path]:
    """Return tier name -> folder."""
    configs = root / "configs"
    found = {path.parent.name: path.parent for path in sorted(configs.glob("*/models.yaml"))}
    if (configs / "models.yaml").exists():
        found[str(read_yaml_mapping(configs / "models.yaml").get("tier"))] = configs
    return found


def list_tiers(root: Path) -> tuple[str, ...]:
    """Return the names of the tiers below ``root / "configs"``."""
    return tuple(sorted(_folders(root)))


def load_tier(root: Path, tier: str) -> Tier:
    """Return the checked settings of a tier.

    Parameters
    ----------
    root
        The repository root, which holds ``configs/``.
    tier
        Name of the tier.

    Raises
    ------
    ConfigError
        There is no such tier, or one of its files is wrong in itself or against another one.
    """
    folders = _folders(root)
    if tier not in folders:
        known = ", ".join(sorted(folders)) or "none"
        raise ConfigError(f"{root / 'configs'}: no tier {tier!r}; choose one of: {known}")
    files = {name: read_config(folders[tier] / f"{name}.yaml", model) for name, model in CONFIG_FILES.items()}
    loaded = Tier(name=tier, folder=folders[tier], **files)
    _check_together(loaded)
    return loaded


def tier_holding(config_file: Path) -> Tier:
    """Return the tier that one of its eight files belongs to, such as ``configs/mini/gate.yaml``.

    Raises
    ------
    ConfigError
        The file lies in no tier's folder.
    """
    folder = config_file.resolve().parent
    for root in (folder.parent, folder.parent.parent):
        for name, known in _folders(root).items():
            if known == folder:
                return load_tier(root, name)
    raise ConfigError(
        f"{config_file}: not in a tier's folder; expected configs/{config_file.name} or a folder below it"
    )


def _check_together(tier: Tier) -> None:
    """Refuse files that are right alone and wrong together."""
    for check in (_check_name, _check_depths, _check_lengths, _check_ranks, _check_prompt_hashes):
        problem = check(tier)
        if problem:
            raise ConfigError(f"{tier.folder}: {problem}")


def _check_name(tier: Tier) -> str | None:
    if tier.models.tier != tier.name:
        return f"models.yaml says tier: {tier.models.tier}, but the folder is {tier.name!r}; make them equal"
    if tier.phase0_runtime.vllm_version != tier.models.engine.vllm_version:
        return (
            f"phase0_runtime.yaml vllm_version {tier.phase0_runtime.vllm_version} is not "
            f"models.yaml engine.vllm_version {tier.models.engine.vllm_version}; make them equal"
        )
    return None


def _check_depths(tier: Tier) -> str | None:
    phase1, gate = tier.phase1_measurement, tier.gate
    too_deep = [depth for depth in gate.candidate_depths if depth > phase1.max_depth]
    untimed = [depth for depth in gate.candidate_depths if depth not in phase1.step_time.depths]
    if too_deep or untimed:
        return (
            f"gate.yaml candidate_depths {too_deep or untimed} are not measured; phase1_measurement.yaml has "
            f"max_depth {phase1.max_depth} and step_time.depths {list(phase1.step_time.depths)}"
        )
    return None


def _check_lengths(tier: Tier) -> str | None:
    longest = max(entry.max_tokens for entry in tier.prompts.sets)
    if longest >= tier.models.engine.max_model_len:
        return (
            f"prompts.yaml max_tokens {longest} leaves no room for a prompt in models.yaml "
            f"engine.max_model_len {tier.models.engine.max_model_len}; lower one or raise the other"
        )
    return None


def _check_ranks(tier: Tier) -> str | None:
    limit = tier.models.engine.max_lora_rank
    for row in tier.adapter_pool.adapters:
        if isinstance(row, TrainedAdapter) and row.rank > limit:
            return f"adapter_pool.yaml {row.name}: rank {row.rank} exceeds models.yaml engine.max_lora_rank {limit}"
    return None


def _check_prompt_hashes(tier: Tier) -> str | None:
    unknown = [d for d in tier.prompts.own_evaluation.sha256 if d not in tier.adapter_pool.domains]
    missing = [d for d in tier.adapter_pool.domains if d not in tier.prompts.own_evaluation.sha256]
    if unknown or missing:
        return (
            f"prompts.yaml own evaluation sha256 lists domains {unknown or missing} "
            f"{'that no adapter has' if unknown else 'not, which adapter_pool.yaml uses'}; "
            f"list exactly {', '.join(tier.adapter_pool.domains)}"
        )
    return None
