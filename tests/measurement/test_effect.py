import numpy as np
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.measurement import estimate_acceptance, estimate_acceptance_length_difference, estimate_mismatch
from lora_spec.records import AcceptanceCounts, PromptRecord

BOOTSTRAP = {"level": 0.9, "num_bootstrap": 500, "seed": 1}
PAIRED = {"prompt_set": "own", "num_speculative_tokens": 2, "min_drafts": 1, **BOOTSTRAP}


def _record(prompt, arm, num_drafts, per_pos, prompt_set="own"):
    counts = AcceptanceCounts(num_drafts, num_drafts * len(per_pos), sum(per_pos), tuple(per_pos))
    return PromptRecord(str(prompt), prompt_set, arm, "x" if arm == "adapted" else None, counts, 5, (1, 2), "length")


def _both(prompt, base, adapted):
    return [_record(prompt, "base", *base), _record(prompt, "adapted", *adapted)]


def _drawn(alpha_base, alpha_adapted, num_prompts, seed, num_drafts=50):
    rng = np.random.default_rng(seed)
    records = []
    for prompt in range(num_prompts):
        for arm, alpha in (("base", alpha_base), ("adapted", alpha_adapted)):
            first = rng.binomial(num_drafts, alpha)
            records.append(_record(prompt, arm, num_drafts, (first, rng.binomial(first, alpha))))
    return records


def test_mismatch_is_a_ratio_of_sums_not_a_mean_of_ratios():
    records = _both(0, (10, (8, 2)), (10, (4, 1))) + _both(1, (90, (20, 10)), (190, (9, 1)))
    expected = 1 - ((5 + 10) / 200) / ((10 + 30) / 100)
    assert estimate_mismatch(records, **PAIRED).estimate == pytest.approx(expected)


def test_equal_arms_have_no_mismatch_in_any_resample():
    records = [r for p in range(6) for r in _both(p, (10 + p, (p + 1, 1)), (10 + p, (p + 1, 1)))]
    interval = estimate_mismatch(records, **PAIRED)
    assert (interval.lower, interval.estimate, interval.upper) == pytest.approx((0, 0, 0), abs=1e-12)


def test_an_adapter_that_is_never_accepted_has_mismatch_one():
    records = [r for p in range(6) for r in _both(p, (10, (4 + p % 3, 1)), (12, (0, 0)))]
    interval = estimate_mismatch(records, **PAIRED)
    assert (interval.lower, interval.upper) == (1, 1)


def test_length_difference_counts_tokens_per_step():
    records = [r for p in range(4) for r in _both(p, (10, (6, 2)), (10, (2, 1)))]
    interval = estimate_acceptance_length_difference(records, **PAIRED)
    assert (interval.lower, interval.estimate, interval.upper) == pytest.approx((-0.5, -0.5, -0.5))


def test_the_interval_covers_the_truth_at_about_its_level():
    truth = 1 - (0.3 + 0.09) / (0.6 + 0.36)
    intervals = [estimate_mismatch(_drawn(0.6, 0.3, 40, seed), **PAIRED) for seed in range(150)]
    covered = np.mean([i.lower <= truth <= i.upper for i in intervals])
    assert 0.82 <= covered <= 0.97


def test_the_same_seed_gives_the_same_interval_and_order_does_not_matter():
    records = _drawn(0.6, 0.3, 20, 0)
    assert estimate_mismatch(records, **PAIRED) == estimate_mismatch(records[::-1], **PAIRED)
    assert estimate_mismatch(records, **PAIRED) != estimate_mismatch(records, **PAIRED | {"seed": 2})


def test_other_sets_and_depths_are_left_out():
    records = _drawn(0.6, 0.3, 20, 0)
    others = [_record(p, arm, 9, (9, 9), "common") for p in range(3) for arm in ("base", "adapted")]
    others += [_record(p, arm, 9, (9, 9, 9)) for p in range(3) for arm in ("base", "adapted")]
    assert estimate_mismatch(records + others, **PAIRED) == estimate_mismatch(records, **PAIRED)


@pytest.mark.parametrize("estimate", [estimate_mismatch, estimate_acceptance_length_difference])
def test_unpaired_or_thin_arms_are_refused(estimate):
    records = _drawn(0.6, 0.3, 5, 0)
    with pytest.raises(MeasurementError, match="share 4 of 5 base and 4 adapted"):
        estimate(records[:-1], **PAIRED)
    with pytest.raises(MeasurementError, match="250 drafts, 251 are needed"):
        estimate(records, **PAIRED | {"min_drafts": 251})
    with pytest.raises(MeasurementError, match="counted twice"):
        estimate(records * 2, **PAIRED)
    with pytest.raises(MeasurementError, match="0 drafts"):
        estimate([], **PAIRED)


def test_a_base_that_accepts_nothing_has_no_mismatch():
    records = [r for p in range(5) for r in _both(p, (10, (0, 0)), (10, (1, 0)))]
    with pytest.raises(MeasurementError, match="accepts"):
        estimate_mismatch(records, **PAIRED)


def _every_depth(alpha, num_prompts, max_depth, num_drafts=100):
    rng = np.random.default_rng(0)
    records = []
    for depth in range(1, max_depth + 1):
        for prompt in range(num_prompts):
            runs = np.minimum(rng.geometric(1 - alpha, num_drafts) - 1, depth)
            per_pos = tuple(int((runs > k).sum()) for k in range(depth))
            records.append(_record(prompt, "adapted", num_drafts, per_pos))
    return records


def test_acceptance_estimate_has_the_geometric_closed_form():
    alpha, max_depth = 0.6, 4
    estimate = estimate_acceptance(_every_depth(alpha, 50, max_depth), **BOOTSTRAP)
    assert estimate.mode == "measured"
    assert estimate.acceptance_rate_per_pos == pytest.approx([alpha**k for k in range(1, 5)], abs=0.03)
    for depth in range(max_depth + 1):
        interval = estimate.acceptance_length(depth)
        assert interval.estimate == pytest.approx((1 - alpha ** (depth + 1)) / (1 - alpha), abs=0.05)
        assert interval.lower <= interval.estimate <= interval.upper


def test_lengths_come_from_each_depths_own_counts():
    records = [_record(0, "adapted", 10, (5,)), _record(0, "adapted", 8, (2, 1))]
    estimate = estimate_acceptance(records, **BOOTSTRAP)
    assert estimate.acceptance_length(1).estimate == 1.5
    assert estimate.acceptance_length(2).estimate == 1 + 3 / 8
    assert estimate.acceptance_rate_per_pos == (2 / 8, 1 / 8)


def test_a_missing_depth_is_refused():
    with pytest.raises(MeasurementError, match="K=1"):
        estimate_acceptance([_record(0, "adapted", 8, (2, 1))], **BOOTSTRAP)
    with pytest.raises(MeasurementError, match="no counts"):
        estimate_acceptance([_record(0, "base", 8, (2, 1))], **BOOTSTRAP)
