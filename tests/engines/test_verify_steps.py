import numpy as np
import pytest

from lora_spec.engines.verify_steps import accepted_per_step
from lora_spec.errors import EngineError


def _step_by_step(matches, num_output_tokens, depth):
    """The same steps, one drafted token at a time."""
    accepted, produced = [], 1
    while produced < num_output_tokens:
        n = 0
        while n < depth and matches[produced + n]:
            n += 1
        accepted.append(n)
        produced += n + 1
    return tuple(accepted)


@pytest.mark.parametrize("depth", [1, 2, 3, 4])
def test_steps_equal_drafting_one_token_at_a_time(depth):
    rng = np.random.default_rng(depth)
    for num_output_tokens in (1, 2, 7, 60):
        matches = rng.random(num_output_tokens + depth) < 0.6
        assert accepted_per_step(matches, num_output_tokens, depth) == _step_by_step(matches, num_output_tokens, depth)


def test_a_drafter_that_is_always_right_needs_one_step_per_depth_plus_one():
    assert accepted_per_step(np.ones(13 + 3, bool), 13, 3) == (3, 3, 3)


def test_a_drafter_that_is_always_wrong_needs_one_step_per_token():
    assert accepted_per_step(np.zeros(5 + 3, bool), 5, 3) == (0, 0, 0, 0)


def test_the_first_output_token_belongs_to_the_prefill():
    assert accepted_per_step(np.ones(5, bool), 1, 4) == ()
    wrong_at_first = np.array([False, True, True, True, True])
    assert accepted_per_step(wrong_at_first, 4, 3) == (3,)


def test_the_last_step_counts_agreement_past_the_end():
    matches = np.array([True, True, True, True, True, False])
    assert accepted_per_step(matches, 3, 4) == (4,)
    assert accepted_per_step(matches, 2, 4) == (4,)


def test_a_last_step_without_enough_overrun_is_refused():
    with pytest.raises(EngineError, match="tokens past its end"):
        accepted_per_step(np.ones(4, bool), 4, 4)


def test_a_rejection_inside_the_output_needs_no_overrun():
    assert accepted_per_step(np.array([True, True, False, False]), 4, 4) == (1, 0)
