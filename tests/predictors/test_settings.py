from pathlib import Path

import pytest
from linear_law import make_examples

from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.predictors.prediction import predict
from lora_spec.predictors.registry import VARIANTS
from lora_spec.predictors.settings import fit_settings, variant_options

CONFIG = Path(__file__).parents[2] / "configs" / "mini" / "gate.yaml"


@pytest.mark.parametrize("name", sorted(VARIANTS))
def test_the_config_has_options_for_every_variant(name):
    gate = read_config(CONFIG, GateConfig).to_dict()
    exported = fit_predictor(
        name,
        make_examples(5, 2),
        settings=fit_settings(gate),
        options=variant_options(gate, name),
        target_model="t",
        draft_model="d",
    )
    assert exported["predictor"] == name
    assert predict(exported, make_examples(5, 2)[0].columns).mode == exported["mode"]


def test_what_the_config_says_reaches_the_export():
    config = read_config(CONFIG, GateConfig)
    exported = fit_predictor(
        config.predictor.model,
        make_examples(5, 2),
        settings=fit_settings(config.to_dict()),
        options=variant_options(config.to_dict()),
        target_model="t",
        draft_model="d",
    )
    assert exported["mode"] == config.predictor.mode
    assert exported["level"] == config.level
    assert exported["min_adapters"] == config.predictor.min_adapters
    assert exported["standing_num_speculative_tokens"] == config.standing_num_speculative_tokens
    assert exported["novelty"]["level"] == config.predictor.max_ood_quantile
    penalties = {position["penalty"] for position in exported["model"]["positions"]}
    assert penalties <= set(config.predictor.elastic_net.penalties)
