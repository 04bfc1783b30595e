"""What every null must do, and what each of them can and cannot see."""

from dataclasses import replace

import numpy as np
import pytest
from linear_law import counts_of, make_examples, true_rates

from lora_spec.errors import PredictorError
from lora_spec.predictors.columns import CheckpointCalibColumns
from lora_spec.predictors.nulls import NULLS, held_out_by_null
from lora_spec.predictors.nulls.ridge import RidgeNull

DEPTH = 3


@pytest.fixture
def examples():
    """Return adapters whose norm falls with their strength; the recipe's columns are noise."""
    rng, made = np.random.default_rng(0), []
    for example in make_examples(6, 3):
        strength = example.columns.values["column_0"]
        noise = {column: float(rng.normal()) for column in NULLS["metadata_ridge"].columns}
        probed = {f"calib_acceptance_length_{DEPTH}": 1.0 + rng.uniform()}
        made.append(replace(example, columns=CheckpointCalibColumns({"log_fro_total": strength, **noise, **probed})))
    return made


def _lengths(examples):
    return np.array([example.counts_by_depth[DEPTH - 1].acceptance_length for example in examples])


@pytest.mark.parametrize("name", sorted(NULLS))
def test_a_guess_does_not_move_with_the_truth_of_its_own_source(name, examples):
    before = held_out_by_null(name, examples, depth=DEPTH)
    assert list(before) == [example.adapter for example in examples]
    wrong = tuple(counts_of(true_rates(-3.0, k)) for k in range(1, 5))
    source = examples[0].source
    changed = [replace(e, counts_by_depth=wrong) if e.source == source else e for e in examples]
    after = held_out_by_null(name, changed, depth=DEPTH)
    learns = name != "direct_probe"
    for example in examples:
        is_same = after[example.adapter] == before[example.adapter]
        assert is_same == (example.source == source or not learns)


def test_the_mean_is_that_of_the_other_sources(examples):
    guesses = held_out_by_null("mean", examples, depth=DEPTH)
    others = [e for e in examples if e.source != examples[0].source]
    assert guesses[examples[0].adapter] == pytest.approx(_lengths(others).mean())


def test_the_norm_orders_adapters_where_acceptance_falls_with_it_and_the_recipe_does_not(examples):
    found = {name: list(held_out_by_null(name, examples, depth=DEPTH).values()) for name in NULLS}
    assert np.corrcoef(found["norm_ridge"], _lengths(examples))[0, 1] > 0.95
    assert abs(np.corrcoef(found["metadata_ridge"], _lengths(examples))[0, 1]) < 0.6


def test_a_direct_probe_is_taken_at_its_word(examples):
    guesses = held_out_by_null("direct_probe", examples, depth=DEPTH)
    column = f"calib_acceptance_length_{DEPTH}"
    assert guesses == {example.adapter: example.columns.values[column] for example in examples}
    with pytest.raises(PredictorError, match="calib_acceptance_length_2"):
        held_out_by_null("direct_probe", examples, depth=2)


def test_where_the_prompts_alone_decide_their_base_acceptance_is_enough(examples):
    made = [
        replace(e, counts_by_depth=counts, base_counts_by_depth=counts)
        for e, counts in (
            (e, tuple(counts_of(true_rates(0.2 * i, k)) for k in range(1, 5))) for i, e in enumerate(examples)
        )
    ]
    guesses = list(held_out_by_null("own_traffic", made, depth=DEPTH).values())
    assert guesses == pytest.approx(_lengths(made).tolist(), abs=1e-3)


def test_columns_that_are_not_there_an_unknown_null_and_one_source_are_refused(examples):
    with pytest.raises(PredictorError, match="no 'absent'"):
        RidgeNull(["absent"], "nothing").fit(examples, DEPTH)
    with pytest.raises(PredictorError, match="own_traffic"):
        held_out_by_null("oracle", examples, depth=DEPTH)
    with pytest.raises(PredictorError, match="1 source:"):
        held_out_by_null("mean", [replace(e, source="a") for e in examples], depth=DEPTH)
