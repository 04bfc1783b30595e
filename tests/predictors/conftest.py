"""Predictors fitted once for all tests of this room."""

from collections.abc import Callable

import pytest
from linear_law import fit, make_examples


@pytest.fixture(scope="session")
def exported() -> dict:
    return fit(make_examples(12, 3))


@pytest.fixture(scope="session")
def few_exported() -> dict:
    return fit(make_examples(7, 1))


@pytest.fixture
def fit_examples() -> Callable[..., dict]:
    return fit
