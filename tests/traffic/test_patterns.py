import numpy as np
import pytest

from lora_spec.errors import ConfigError
from lora_spec.traffic.patterns.registry import PATTERNS, make_pattern

SETTINGS = {
    "uniform": {"kind": "uniform", "name": "u"},
    "zipf": {"kind": "zipf", "name": "z", "exponent": 1.0},
    "bursty": {"kind": "bursty", "name": "b", "burst_factor": 4.0, "mean_burst_s": 5.0, "burst_share": 0.2},
}


@pytest.fixture(params=sorted(PATTERNS))
def pattern(request):
    return make_pattern(SETTINGS[request.param])


def test_shares_add_up_and_never_rise_with_rank(pattern):
    for num_adapters in (1, 2, 17, 1000):
        shares = pattern.shares(num_adapters)
        assert shares.shape == (num_adapters,)
        assert shares.sum() == pytest.approx(1)
        assert np.all(np.diff(shares) <= 0)


def test_times_rise_within_the_run_and_are_the_seeds_own(pattern):
    times = pattern.arrival_times(5.0, 60.0, np.random.default_rng(0))
    assert np.all(np.diff(times) >= 0)
    assert times[0] >= 0
    assert times[-1] < 60.0
    assert np.array_equal(times, pattern.arrival_times(5.0, 60.0, np.random.default_rng(0)))
    assert not np.array_equal(times, pattern.arrival_times(5.0, 60.0, np.random.default_rng(1)))


def test_the_mean_rate_is_the_one_asked_for(pattern):
    counts = [len(pattern.arrival_times(2.0, 500.0, np.random.default_rng(seed))) for seed in range(200)]
    standard_error = np.std(counts) / np.sqrt(len(counts))
    assert np.mean(counts) == pytest.approx(1000.0, abs=4 * standard_error)


def test_no_traffic_is_no_error(pattern):
    assert len(pattern.arrival_times(1e-9, 1.0, np.random.default_rng(0))) == 0


def test_zipf_of_exponent_one_halves_the_second_share():
    shares = make_pattern(SETTINGS["zipf"]).shares(100)
    assert shares[0] / shares[1] == pytest.approx(2)
    assert shares[0] / shares[99] == pytest.approx(100)


def _dispersion(name):
    """Return variance over mean of the requests in windows of five seconds: 1 for a Poisson process."""
    times = make_pattern(SETTINGS[name]).arrival_times(4.0, 20_000.0, np.random.default_rng(0))
    counts = np.histogram(times, bins=4000, range=(0, 20_000))[0]
    return counts.var() / counts.mean()


def test_only_bursty_traffic_clumps():
    assert _dispersion("uniform") == pytest.approx(1, abs=0.1)
    assert _dispersion("zipf") == pytest.approx(1, abs=0.1)
    assert _dispersion("bursty") > 4


def test_bursts_are_as_busy_and_as_frequent_as_asked():
    times = make_pattern(SETTINGS["bursty"] | {"mean_burst_s": 1000.0}).arrival_times(
        4.0, 2_000_000.0, np.random.default_rng(0)
    )
    # Long phases, short windows: a window lies in one phase, of 16 requests a second or of 1.
    rates = np.histogram(times, bins=40_000, range=(0, 2_000_000))[0] / 50
    is_burst = rates > 8
    assert rates[is_burst].mean() == pytest.approx(16.0, rel=0.02)
    assert rates[~is_burst].mean() == pytest.approx(1.0, rel=0.05)
    assert is_burst.mean() == pytest.approx(0.2, abs=0.05)


def test_an_unknown_kind_is_named():
    with pytest.raises(ConfigError, match="sawtooth"):
        make_pattern({"kind": "sawtooth", "name": "s"})
