"""Reads and checks the config files of a tier and hands their values out, frozen.

Knows nothing of what the values do: no model, engine or formula is met here.
"""

from lora_spec.config.fields import ConfigModel
from lora_spec.config.reading import read_config
from lora_spec.config.tier import CONFIG_FILES, Tier, list_tiers, load_tier, tier_holding

__all__ = ["CONFIG_FILES", "ConfigModel", "Tier", "list_tiers", "load_tier", "read_config", "tier_holding"]
