import copy

import pytest
from pydantic import ValidationError

from lora_spec.config.cost_parts import CostPartsConfig


def _cells(context, sizes, prompts, ranks):
    return {
        "decode": [{"num_context_tokens": context, "batch_sizes": sizes, "depths": [0, 2]}],
        "mixed": [{"num_context_tokens": context, "batch_sizes": [4], "mixes": [[0, 2]]}],
        "prefill": {"num_prompt_tokens": prompts, "num_context_tokens": 8, "batch_sizes": [2], "depths": [0]},
        "no_drafter": {"num_context_tokens": context, "batch_sizes": sizes, "depths": [0]},
        "no_lora": {"num_context_tokens": context, "batch_sizes": sizes, "depths": [0]},
        "load_ranks": ranks,
    }


@pytest.fixture
def settings():
    return copy.deepcopy(
        {
            "fit": _cells(32, [1, 8], [16, 64], [2, 8]),
            "validation": _cells(96, [2, 4], [32], [4]),
            "num_trials": 3,
            "num_steps": 4,
            "num_warmup_steps": 1,
            "max_other_cores": 0.25,
            "max_wait_s": 900.0,
            "seed": 0,
        }
    )


def test_cells_apart_are_accepted_and_summed_up(settings):
    found = CostPartsConfig(**settings)
    assert (found.max_depth, found.max_batch_size, found.max_lora_rank) == (2, 8, 8)
    # Two depths of five steps, three to ramp up, three tokens each at most, and two drafts at the end.
    assert found.num_tokens == 96 + 3 * (2 * 5 + 3) + 2 * 2


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"decode": [{"num_context_tokens": 32, "batch_sizes": [8], "depths": [2]}]}, "'decode', 32, 8"),
        ({"mixed": [{"num_context_tokens": 32, "batch_sizes": [4], "mixes": [[0, 2]]}]}, "'mixed', 32, 4"),
        ({"no_drafter": {"num_context_tokens": 32, "batch_sizes": [1], "depths": [0]}}, "'no_drafter', 32, 1"),
        ({"load_ranks": [8]}, "load rank 8"),
    ],
)
def test_a_cell_of_fit_cannot_also_test_it(settings, block, message):
    settings["validation"] |= block
    with pytest.raises(ValidationError, match=message):
        CostPartsConfig(**settings)


@pytest.mark.parametrize(
    ("block", "message"),
    [
        ({"no_drafter": {"num_context_tokens": 32, "batch_sizes": [1], "depths": [1]}}, "cannot draft"),
        ({"mixed": [{"num_context_tokens": 32, "batch_sizes": [4], "mixes": [[2]]}]}, "two depths or more"),
        ({"load_ranks": []}, "at least 1 item"),
    ],
)
def test_cells_that_mean_nothing_are_refused(settings, block, message):
    settings["fit"] |= block
    with pytest.raises(ValidationError, match=message):
        CostPartsConfig(**settings)


def test_a_cell_that_stands_twice_in_one_use_is_refused(settings):
    settings["fit"]["decode"] *= 2
    with pytest.raises(ValidationError, match="holds a cell twice"):
        CostPartsConfig(**settings)
