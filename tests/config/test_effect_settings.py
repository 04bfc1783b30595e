"""The effect rule gathered from a tier's files."""

from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.config.effect_settings import effect_settings
from lora_spec.gate.effect_report import EffectSettings


def test_the_gathered_settings_are_whole_and_agree_with_the_tier():
    tier = load_tier(Path(__file__).parents[2], "cpu")
    plain = effect_settings(tier, tier.adapter_pool.names)
    settings = EffectSettings.from_dict(plain)
    assert settings.rule.num_speculative_tokens == tier.gate.standing_num_speculative_tokens
    assert set(settings.strata) == set(tier.adapter_pool.names)
    assert settings.rule.stratum in settings.strata.values()
