import numpy as np
import pytest

from lora_spec.engines import Trajectory, open_replayer
from lora_spec.engines.ngram_replay import drafted_by_lookup


def _drafted(text, depth=3, low=2, high=4):
    found = drafted_by_lookup(np.array(text, np.int32), min_ngram=low, max_ngram=high, num_speculative_tokens=depth)
    return found.tolist()


@pytest.mark.parametrize(
    ("text", "drafted"),
    [
        ([1, 2, 3, 9, 1, 2], [3, 9, 1]),
        ([1, 2, 3, 1, 2, 4, 1, 2], [3, 1, 2]),  # the earliest of two matches
        ([5, 1, 2, 7, 8, 6, 1, 2, 8, 5, 1, 2], [7, 8, 6]),  # the longer match, not the earlier one
        ([1, 1, 1, 1], [1]),  # overlapping itself
        ([1, 2, 3, 4], []),
        ([7, 1, 8, 1], []),  # one token is no match where two are asked for
        ([1], []),
        ([], []),
    ],
)
def test_what_follows_the_longest_earliest_match_is_drafted(text, drafted):
    assert _drafted(text) == drafted


def test_depth_and_model_length_bound_the_draft():
    assert _drafted([1, 2, 3, 4, 5, 1, 2], depth=2) == [3, 4]
    trajectory = Trajectory("p", (1, 2, 3, 4, 5), (1, 2, 3, 4), (5, 6), "length")
    (long,), (short,) = (open_replayer("ngram", max_model_len=n).replay([trajectory], [2]) for n in (100, 7))
    assert long[0].drafted_per_step == (0, 2)
    assert short[0].drafted_per_step == (0, 0, 0)


def test_a_text_that_repeats_its_prompt_is_accepted_whole():
    prompt = tuple(range(3, 15))
    trajectory = Trajectory("p", (*prompt, 50), (*prompt[:9],), prompt[9:12], "length")
    ((steps,),) = open_replayer("ngram").replay([trajectory], [3])
    # Token 0 is the prefill's; one step has no match yet (a single token); then three drafts and one more each.
    assert steps.drafted_per_step == (0, 3, 3)
    assert steps.accepted_per_step == (0, 3, 3)
    assert steps.counts().num_drafts == 2


def test_a_text_without_repeats_drafts_nothing_and_still_has_its_steps():
    ((steps,),) = open_replayer("ngram").replay([Trajectory("p", (1, 2), (3, 4, 5, 6), (7, 8), "length")], [2])
    assert steps.accepted_per_step == (0, 0, 0)
    assert (steps.counts().num_drafts, steps.counts().acceptance_length) == (0, None)
