import pytest

from lora_spec.cost_model.break_even import break_even_token_acceptance_prob, iid_acceptance_length
from lora_spec.errors import ConfigError

# By hand: K=1 solves 1 + a = R; K=2 solves a^2 + a + 1 = R; K=4 is rounded to two digits.
TABLE = {
    (1, 1.1): 0.10,
    (1, 1.2): 0.20,
    (1, 1.3): 0.30,
    (1, 1.5): 0.50,
    (1, 1.8): 0.80,
    (1, 2.0): 1.00,
    (1, 2.5): None,
    (2, 1.1): 0.09,
    (2, 1.2): 0.17,
    (2, 1.3): 0.24,
    (2, 1.5): 0.37,
    (2, 1.8): 0.52,
    (2, 2.0): 0.62,
    (2, 2.5): 0.82,
    (4, 1.1): 0.09,
    (4, 1.2): 0.17,
    (4, 1.3): 0.23,
    (4, 1.5): 0.34,
    (4, 1.8): 0.46,
    (4, 2.0): 0.52,
    (4, 2.5): 0.64,
}


@pytest.mark.parametrize(("case", "expected"), TABLE.items())
def test_the_break_even_table(case, expected):
    found = break_even_token_acceptance_prob(case[1], case[0])
    assert found == (None if expected is None else pytest.approx(expected, abs=0.0051))


@pytest.mark.parametrize("ratio", [1.05, 1.4, 2.9])
def test_two_drafts_solve_the_quadratic(ratio):
    root = (-1 + (1 - 4 * (1 - ratio)) ** 0.5) / 2
    assert break_even_token_acceptance_prob(ratio, 2) == pytest.approx(root)


def test_at_break_even_the_acceptance_length_is_the_step_time_ratio():
    for depth in (1, 3, 6):
        alpha = break_even_token_acceptance_prob(1.7, depth)
        assert iid_acceptance_length(alpha, depth) == pytest.approx(1.7)


def test_a_free_draft_pays_at_any_acceptance_and_an_unpayable_one_at_none():
    assert break_even_token_acceptance_prob(0.9, 3) == 0.0
    assert break_even_token_acceptance_prob(4.01, 3) is None
    assert break_even_token_acceptance_prob(4.0, 3) == pytest.approx(1.0)


def test_the_geometric_series_is_closed():
    assert iid_acceptance_length(0.6, 4) == pytest.approx((1 - 0.6**5) / (1 - 0.6))


def test_no_drafts_have_no_break_even():
    with pytest.raises(ConfigError, match="K=0"):
        break_even_token_acceptance_prob(1.5, 0)
