"""A tier: the eight config files of one folder, checked each and together.

``configs/`` itself holds one tier (its ``models.yaml`` says which); every other tier is a folder below it.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.config.adapter_pool import AdapterPoolConfig
from lora_spec.config.agreement import check_together
from lora_spec.config.baselines import BaselinesConfig
from lora_spec.config.fields import ConfigModel
from lora_spec.config.gate import GateConfig
from lora_spec.config.models import ModelsConfig
from lora_spec.config.phase0_runtime import Phase0RuntimeConfig
from lora_spec.config.phase1_measurement import Phase1MeasurementConfig
from lora_spec.config.prompts import PromptsConfig
from lora_spec.config.reading import read_config, read_yaml_mapping, shown
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


def _top_tier(configs: Path) -> str | None:
    """Return the name of the tier that ``configs/`` itself holds, None where it holds none.

    Raises
    ------
    ConfigError
        Its ``models.yaml`` cannot be read or names no tier.
    """
    path = configs / "models.yaml"
    if not path.exists():
        return None
    name = read_yaml_mapping(path).get("tier")
    if not isinstance(name, str):
        raise ConfigError(f"{path}: tier: got {shown(name)}; write the name of the tier that this folder holds")
    if (configs / name / "models.yaml").exists():
        raise ConfigError(
            f"{path} and {configs / name / 'models.yaml'} both hold tier {name!r}; rename one, since only one can run"
        )
    return name


def _folders(root: Path) -> tuple[dict[str, Path], ConfigError | None]:
    """Return tier name -> folder, and what is wrong with the top folder: the tiers below it do not depend on it."""
    configs = root / "configs"
    found = {path.parent.name: path.parent for path in sorted(configs.glob("*/models.yaml"))}
    try:
        name = _top_tier(configs)
    except ConfigError as err:
        return found, err
    return (found if name is None else {**found, name: configs}), None


def list_tiers(root: Path) -> tuple[str, ...]:
    """Return the names of the tiers below ``root / "configs"``."""
    return tuple(sorted(_folders(root)[0]))


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
        There is no such tier, two folders claim it, or one of its files is wrong in itself or against another one.
    """
    folder = _folder_of(root, tier)
    files = {name: read_config(folder / f"{name}.yaml", model) for name, model in CONFIG_FILES.items()}
    loaded = Tier(name=tier, folder=folder, **files)
    check_together(loaded)
    return loaded


def _folder_of(root: Path, tier: object) -> Path:
    folders, top_problem = _folders(root)
    if isinstance(tier, str) and tier in folders:
        if top_problem is not None and _is_claimed_twice(root / "configs", tier):
            raise top_problem
        return folders[tier]
    if top_problem is not None:
        raise top_problem
    known = ", ".join(sorted(folders)) or "none"
    raise ConfigError(f"{root / 'configs'}: no tier {shown(tier)}; choose one of: {known}")


def _is_claimed_twice(configs: Path, tier: str) -> bool:
    try:
        return read_yaml_mapping(configs / "models.yaml").get("tier") == tier
    except ConfigError:
        return False


def tier_holding(config_file: Path, name: str | None = None) -> Tier:
    """Return the tier that one of its eight files belongs to, such as ``configs/mini/gate.yaml``.

    Parameters
    ----------
    name
        Which of the eight it must be, such as ``phase1_measurement``; None takes any.

    Raises
    ------
    ConfigError
        It is no such file, or lies in no tier's folder.
    """
    wanted = CONFIG_FILES if name is None else (name,)
    if config_file.suffix != ".yaml" or config_file.stem not in wanted or not config_file.is_file():
        raise ConfigError(
            f"{config_file}: no such config file; give {' or '.join(f'{w}.yaml' for w in wanted)} of a tier"
        )
    folder = config_file.resolve().parent
    for root in (folder.parent, folder.parent.parent):
        for tier, known in _folders(root)[0].items():
            if known == folder:
                return load_tier(root, tier)
    if folder.name == "configs":
        _top_tier(folder)  # says what keeps the folder from being a tier
    raise ConfigError(
        f"{config_file}: not in a tier's folder; expected configs/{config_file.name} or a folder below it"
    )
