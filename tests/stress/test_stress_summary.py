"""What runs come to, trials and comparisons, by hand-made records."""

import numpy as np
import pytest

from lora_spec.errors import MeasurementError
from lora_spec.stress.comparison import compare_policies
from lora_spec.stress.draft_counts import DraftCounts
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.summary import RunSummary, ServiceLevel, summarise
from lora_spec.stress.trials import mean_ratio
from lora_spec.stress.validation import compare_with_real

LEVEL = ServiceLevel(max_ttft_ms=500, max_tpot_ms=100)


def _record(index, due, first, last, tokens=11, error=None):
    return RequestRecord(index, "a", 8, tokens, due, due, first, last, error)


RECORDS = (
    _record(0, 0.0, 9.0, 9.5),  # warm-up
    _record(1, 10.0, 10.1, 11.1),  # TTFT 100, TPOT 100: good
    _record(2, 11.0, 11.6, 12.6),  # late
    _record(3, 12.0, 12.1, 14.1),  # slow
    _record(4, 13.0, None, None, 0, "status 500"),
)


def _summary(records=RECORDS, **more):
    return summarise(records, warmup_s=5.0, service_level=LEVEL, **more)


def test_a_summary_counts_after_the_warm_up_and_keeps_failures_apart():
    found = _summary()
    assert (found.num_requests, found.num_failed, found.num_good, found.num_output_tokens) == (4, 1, 1, 33)
    assert found.window_s == pytest.approx(14.1 - 5.0)
    assert found.output_throughput_tok_s == pytest.approx(33 / 9.1)
    assert found.request_goodput_req_s == pytest.approx(1 / 9.1)
    assert found.failed_share == 0.25


def test_quantiles_are_over_the_requests_that_ended():
    times = _summary().times_ms
    assert times["ttft_ms"]["p50"] == pytest.approx(100)
    assert times["tpot_ms"]["p99"] == pytest.approx(np.quantile([100, 100, 200], 0.99))
    assert times["e2el_ms"]["mean"] == pytest.approx((1100 + 1600 + 2100) / 3)


def test_a_measure_that_no_request_has_is_missing():
    assert "tpot_ms" not in _summary([_record(0, 10.0, 11.0, 11.0, tokens=1)]).times_ms


def test_a_run_in_which_nothing_ended_is_no_run_with_zero_throughput():
    with pytest.raises(MeasurementError, match="none ended"):
        _summary(RECORDS[4:])


def test_a_summary_comes_back_from_plain_data():
    counts = {None: DraftCounts(2, 4, 3, [2, 2], [2, 1]), "a": DraftCounts()}
    found = _summary(counts=counts, num_adapter_loads=3)
    assert RunSummary.from_dict(found.to_dict()) == found


def test_draft_counts_of_steps_are_those_of_one_after_the_other():
    path = np.array([0, 3, 1, 2, 3], dtype=np.int8)
    counts = DraftCounts()
    counts.add_steps(path, 2)
    assert counts == DraftCounts(5, 10, 0 + 2 + 1 + 2 + 2, [5, 5], [4, 3])
    assert counts.acceptance_rate == pytest.approx(0.7)
    assert counts.acceptance_rate_per_pos == (0.8, 0.6)
    counts.add(1, 1, [1])
    assert (counts.num_drafts_per_pos, counts.num_accepted_tokens_per_pos) == ([6, 5], [5, 3])


def test_drafts_that_never_were_have_no_rate():
    assert DraftCounts().acceptance_rate is None


def test_the_mean_ratio_holds_what_all_trials_share():
    found = mean_ratio([2.0, 4.0, 8.0], [1.0, 2.0, 4.0], level=0.9)
    assert (found.estimate, found.lower, found.upper) == pytest.approx((2, 2, 2))


def test_the_interval_of_a_ratio_covers_as_often_as_it_says():
    rng = np.random.default_rng(0)
    logs = np.log(1.1) + 0.05 * rng.standard_normal((600, 3))
    found = [mean_ratio(np.exp(row).tolist(), [1.0] * 3, level=0.9) for row in logs]
    assert np.mean([item.lower <= 1.1 <= item.upper for item in found]) == pytest.approx(0.9, abs=0.04)


def test_trials_that_do_not_pair_up_are_refused():
    with pytest.raises(MeasurementError, match="2 and 1 trials"):
        mean_ratio([1.0, 2.0], [1.0], level=0.9)


def _cell(policy, seed, mean_ms):
    summary = {
        "times_ms": {"e2el_ms": {"mean": mean_ms}, "tpot_ms": {"p50": 10.0}, "ttft_ms": {"p99": 50.0}},
        "num_requests": 10,
        "num_failed": 0,
        "num_good": 9,
    }
    cell = {"pattern": "zipf", "cache_mode": "warm", "request_rate_req_s": 2.0, "seed": seed, "policy": policy}
    return {"cell": cell, "candidate": f"of {policy}", "summary": summary}


def test_gain_is_told_against_the_best_static_depth_and_regret_against_the_oracle():
    times = {"best_static_k": (100, 200), "ours": (80, 160), "oracle": (50, 100)}
    cells = [_cell(name, seed, ms) for name, pair in times.items() for seed, ms in enumerate(pair)]
    rows = {row["policy"]: row for row in compare_policies(cells, level=0.9, source="simulated")}
    assert rows["ours"]["gain"] == pytest.approx(0.25)
    assert rows["ours"]["regret"] == pytest.approx(0.6)
    assert rows["best_static_k"]["gain"] == rows["oracle"]["regret"] == 0
    assert rows["ours"]["num_requests"] == 20


def test_one_trial_has_no_interval_and_a_grid_without_oracle_no_regret():
    (row, _) = compare_policies([_cell("ours", 0, 80), _cell("best_static_k", 0, 100)], level=0.9, source="live")
    assert (row["gain_lower"], row["regret"], row["source"]) == (None, None, "live")


def test_a_grid_without_the_best_static_depth_is_refused():
    with pytest.raises(MeasurementError, match="best_static_k was not run"):
        compare_policies([_cell("ours", 0, 80)], level=0.9, source="live")


def _run(tpot_ms, window_s=100.0, num_requests=10):
    return RunSummary(num_requests, 0, 0, 1000, window_s, {"tpot_ms": {"p50": tpot_ms}}, {}, None, None)


def test_validation_tells_errors_and_order():
    real = {"off": _run(30.0), "standing": _run(20.0), "ours": _run(15.0)}
    near = {"off": _run(32.0, 95.0), "standing": _run(21.0), "ours": _run(14.0)}
    found = compare_with_real(near, real)
    assert found.policies["off"].output_throughput_error == pytest.approx(100 / 95 - 1)
    assert found.policies["ours"].p50_tpot_error == pytest.approx(-1 / 15)
    assert found.kendall_tau_tpot == pytest.approx(1)
    assert found.is_passed


@pytest.mark.parametrize("ours", [17.0, 21.5])
def test_an_error_beyond_a_tenth_and_another_order_each_fail(ours):
    real = {"off": _run(30.0), "standing": _run(21.0), "ours": _run(20.0)}
    found = compare_with_real({"off": _run(30.0), "standing": _run(21.0), "ours": _run(ours)}, real)
    assert not found.is_passed
    assert found.to_dict()["is_passed"] is False


def test_validation_needs_both_sides_of_one_schedule():
    with pytest.raises(MeasurementError, match="both are needed"):
        compare_with_real({"off": _run(30.0)}, {"ours": _run(30.0)})
    with pytest.raises(MeasurementError, match="one schedule"):
        compare_with_real({"off": _run(30.0)}, {"off": _run(30.0, num_requests=9)})
