"""Singular values from the factors, against dense float64 decompositions and exact invariances."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lora_spec.adapter.spectrum import NonFiniteFactorError, singular_values

sizes = st.integers(1, 24)


def spectrum(a, b, *, piece=7):
    """Give the factors in pieces, as a file reader would."""
    return singular_values(
        lambda: (a[:, start : start + piece] for start in range(0, a.shape[1], piece)),
        lambda: (b[start : start + piece] for start in range(0, b.shape[0], piece)),
        rank=a.shape[0],
        in_features=a.shape[1],
        out_features=b.shape[0],
    )


def dense(a, b):
    return np.linalg.svd(b @ a, compute_uv=False)[: min(*a.shape, b.shape[0])]


@st.composite
def factors(draw):
    rank, columns, rows = draw(sizes), draw(sizes), draw(sizes)
    rng = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    a, b = rng.normal(size=(rank, columns)), rng.normal(size=(rows, rank))
    decay = draw(st.sampled_from([1.0, 0.5, 0.05]))
    return a * (decay ** np.arange(rank))[:, None], b


@given(factors())
@settings(max_examples=150, deadline=None)
def test_singular_values_agree_with_the_dense_product(pair):
    a, b = pair
    wanted = dense(a, b)
    np.testing.assert_allclose(spectrum(a, b), wanted, rtol=1e-9, atol=1e-6 * wanted[0])


@given(factors(), st.integers(0, 2**32 - 1), st.floats(0.0, 5.0))
@settings(max_examples=150, deadline=None)
def test_singular_values_do_not_depend_on_how_the_product_is_factored(pair, seed, log_condition):
    a, b = pair
    rank = a.shape[0]
    rng = np.random.default_rng(seed)
    left, right = (np.linalg.qr(rng.normal(size=(rank, rank)))[0] for _ in range(2))
    stretch = 10.0 ** rng.uniform(-log_condition / 2, log_condition / 2, rank)
    g, inverse = left @ np.diag(stretch) @ right, right.T @ np.diag(1 / stretch) @ left.T
    wanted = spectrum(a, b)
    np.testing.assert_allclose(spectrum(g @ a, b @ inverse), wanted, rtol=1e-6, atol=1e-5 * wanted[0])


@pytest.mark.parametrize("exponent", [-80, -30, 30, 80])
def test_lopsided_factors_keep_their_product(exponent):
    rng = np.random.default_rng(3)
    a, b = rng.normal(size=(4, 30)), rng.normal(size=(20, 4))
    np.testing.assert_allclose(spectrum(a * 10.0**exponent, b * 10.0**-exponent), dense(a, b), rtol=1e-9)


def test_ranks_of_very_different_size_keep_their_digits():
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(4, 30)), rng.normal(size=(20, 4))
    stretch = 10.0 ** np.array([12, -12, 3, 0])
    np.testing.assert_allclose(spectrum(a * stretch[:, None], b / stretch), dense(a, b), rtol=1e-9)


def test_a_small_singular_value_is_known_to_a_hundred_millionth_of_the_largest():
    rng = np.random.default_rng(5)
    a, b = rng.normal(size=(2, 40)), np.linalg.qr(rng.normal(size=(30, 2)))[0]
    a[1] = a[0] + 1e-6 * a[1]
    wanted = dense(a, b)
    np.testing.assert_allclose(spectrum(a, b), wanted, atol=1e-8 * wanted[0])


def test_a_product_that_cancels_almost_wholly_keeps_its_norm():
    rng = np.random.default_rng(6)
    a0, b0 = rng.normal(size=(4, 50)), rng.normal(size=(40, 4))
    a, b = np.vstack([a0, a0]), np.hstack([b0 + 1e-5 * rng.normal(size=b0.shape), -b0])
    np.testing.assert_allclose(spectrum(a, b)[:4], dense(a, b)[:4], rtol=1e-6)


@pytest.mark.parametrize("rank", [2, 4])
def test_a_product_that_is_exactly_zero_in_float64_is_zero(rank):
    rng = np.random.default_rng(7)
    a0, b0 = (rng.integers(-999, 999, size).astype(float) for size in ((rank, 50), (40, rank)))
    assert not spectrum(np.vstack([a0, a0]), np.hstack([b0, -b0])).any()


def test_a_product_that_cancels_to_rounding_is_rounding():
    rng = np.random.default_rng(7)
    a0, b0 = rng.normal(size=(4, 50)), rng.normal(size=(40, 4))
    assert spectrum(np.vstack([a0, a0]), np.hstack([b0, -b0]))[0] < 1e-15 * np.linalg.norm(a0) * np.linalg.norm(b0)


@pytest.mark.parametrize(("columns", "rows"), [(4, 4), (300, 200), (1, 9)])
def test_what_survives_a_cancellation_of_fourteen_digits_is_no_rounding(columns, rows):
    rng = np.random.default_rng(9)
    tiny = 2.0**-23
    a, b = np.zeros((2, columns)), np.zeros((rows, 2))
    a[:, : columns // 2 + 1] = np.array([[1 + tiny], [1]]) * rng.integers(1, 4, columns // 2 + 1)
    b[:] = rng.integers(1, 4, (rows, 1)) * np.array([1 + tiny, -(1 + 2 * tiny)])
    np.testing.assert_allclose(spectrum(a, b)[0], tiny**2 * np.linalg.norm(a[1]) * np.linalg.norm(b[:, 0]), rtol=1e-6)


@pytest.mark.parametrize("which", ["a", "b", "disjoint"])
def test_a_zero_update_is_exactly_zero(which):
    a, b = np.ones((3, 9)), np.ones((8, 3))
    if which == "disjoint":
        a[0], b[:, 1:] = 0, 0
    else:
        (a if which == "a" else b)[:] = 0
    assert not spectrum(a, b).any()


def test_rank_above_both_sizes_gives_no_more_values_than_the_product_has():
    rng = np.random.default_rng(8)
    a, b = rng.normal(size=(9, 5)), rng.normal(size=(4, 9))
    np.testing.assert_allclose(spectrum(a, b, piece=2), dense(a, b), rtol=1e-10)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("rank", [3, 12])
def test_values_that_are_not_finite_are_refused(value, rank):
    a, b = np.ones((rank, 9)), np.zeros((8, rank))
    a[0, 0] = value
    with pytest.raises(NonFiniteFactorError):
        spectrum(a, b)
