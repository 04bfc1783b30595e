"""What calibration prompts buy: texts that follow the adapters' law, so a probe learns more with every prompt."""

import hashlib
from pathlib import Path

import numpy as np
import pytest
from hand_made import cost_model
from made_calibration import DEPTH, make_prompt, make_record

from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.errors import MeasurementError, ResultError
from lora_spec.gate.predictor_comparison import compare_predictors
from lora_spec.plots.probe_curve_table import probe_curve_table
from lora_spec.predictors.smoke import make_up_adapters, without_search
from lora_spec.records import AcceptanceCounts

SIZES = [1, 3, 16]
MADE = make_up_adapters(seed=1, num_sources=10)


def _acceptance(record):
    (counts,) = [
        p.counts for p in record.chosen("replay") if (p.arm, p.counts.num_speculative_tokens) == ("adapted", DEPTH)
    ]
    return counts.num_accepted_tokens / counts.num_draft_tokens


def _probe(record, num_prompts):
    """Return texts whose verify steps accept each draft as often as the adapter does on its other prompts."""
    rng = np.random.default_rng(int(hashlib.sha256(record.adapter.encode()).hexdigest()[:8], 16))
    prompts = []
    for index in range(num_prompts):
        prompt = make_prompt(index)
        steps = [int(np.argmin(np.append(rng.uniform(size=DEPTH) < _acceptance(record), False))) for _ in range(4)]
        counts = [
            AcceptanceCounts.from_accepted_per_step([min(step, depth) for step in steps], depth)
            for depth in range(1, DEPTH + 1)
        ]
        prompts.append(type(prompt)(**{**vars(prompt), "counts_by_depth": tuple(counts)}))
    return make_record(prompts, adapter=record.adapter, adapter_sha256=record.adapter_sha256)


@pytest.fixture(scope="module")
def gate():
    values = without_search(read_config(Path(__file__).parents[2] / "configs" / "gate.yaml", GateConfig).to_dict())
    short = {"num_bootstrap_draws": 60, "num_permutations": 19, "base_prompt_set": "own"}
    predictor = {**values["predictor"], "elastic_net": {"penalties": [0.03], "l1_ratios": [0.5]}}
    predictor["gradient_boosting"] = {**predictor["gradient_boosting"], "num_trees": [5]}
    comparison = {**values["comparison"], **short, "num_calibration_prompts": SIZES}
    return {**values, "predictor": predictor, "comparison": comparison}


def _compare(gate, probes):
    return compare_predictors(
        MADE.features,
        MADE.records,
        cost_model({1: (1, 1.2, 1.4, 1.75, 1.9), 8: (1, 1.3, 1.6, 1.85, 2.4)}),
        gate=gate,
        sources=MADE.sources,
        scored=list(MADE.sources),
        context={"target_model": "made-up target", "draft_model": "made-up drafter"},
        probes=probes,
    )


@pytest.fixture(scope="module")
def whole(gate):
    return _compare(gate, [_probe(record, max(SIZES)) for record in MADE.records])


def test_every_size_has_both_contenders_their_difference_and_a_cost_that_grows(whole):
    sizes = whole["probe_curve"]["sizes"]
    assert [size["num_prompts"] for size in sizes] == SIZES
    for size in sizes:
        gained = size["predictor"]["estimate"] - size["direct_probe"]["estimate"]
        assert size["difference"]["estimate"] == pytest.approx(gained)
        for bound in ("lower_wall_s", "upper_cpu_s"):
            assert size["direct_probe_cost"][bound] < size["predictor_cost"][bound]
    costs = [size["predictor_cost"]["lower_cpu_s"] for size in sizes]
    assert costs == sorted(set(costs))


def test_the_largest_probe_is_that_of_the_whole_comparison(whole):
    last = whole["probe_curve"]["sizes"][-1]
    by_key = {(c["predictor"], c["mode"]): c["spearman"] for c in whole["contenders"]}
    assert last["direct_probe"] == by_key["direct_probe", None]
    assert last["predictor"] == by_key["elastic_net", "checkpoint_calib"]
    assert whole["probe_curve"]["without_probe"] == by_key["elastic_net", "checkpoint_only"]
    assert whole["context"]["num_calibration_prompts"] == max(SIZES)


def test_where_texts_follow_the_law_more_prompts_order_adapters_better_and_the_checkpoint_adds_most_to_few(whole):
    sizes = whole["probe_curve"]["sizes"]
    direct = [size["direct_probe"]["estimate"] for size in sizes]
    assert direct == sorted(direct)
    assert sizes[0]["difference"]["estimate"] > max(0, sizes[-1]["difference"]["estimate"])


def test_the_table_has_three_rows_per_size_and_no_cost_of_a_difference(whole):
    table = probe_curve_table(whole, tier="cpu", setup="a pair")
    assert len(table) == 3 * len(SIZES)
    assert table[table["contender"] == "difference"]["lower_cpu_s"].isna().all()
    assert table[table["contender"] != "difference"]["lower_cpu_s"].notna().all()


def test_a_probe_of_too_few_prompts_is_refused(gate):
    with pytest.raises(MeasurementError, match="16 calibration prompts asked for, the record holds 3"):
        _compare(gate, [_probe(record, 3) for record in MADE.records])


def test_without_the_probe_of_one_adapter_there_is_no_curve_and_the_table_says_so(gate):
    found = _compare(gate, [_probe(record, max(SIZES)) for record in MADE.records[1:]])
    assert found["probe_curve"] is None
    assert "1 of 30 adapters" in found["lacking_modes"]["checkpoint_calib"]
    with pytest.raises(ResultError, match="no probe curve"):
        probe_curve_table(found, tier="cpu", setup="a pair")
