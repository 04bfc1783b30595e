"""Any number of processes gives the same answers, in the same order."""

import math
import operator

import numpy as np
import pytest
from linear_law import make_tables

from lora_spec.config import load_tier
from lora_spec.predictors.held_out import fit_and_hold_out
from lora_spec.predictors.smoke import without_search
from lora_spec.predictors.workers import run_all


@pytest.mark.parametrize("num_workers", [1, 2])
def test_answers_come_in_the_order_of_the_calls_and_errors_as_they_are(num_workers):
    calls = [(operator.sub, (place, 1)) for place in range(5)]
    assert run_all(calls, num_workers=num_workers) == [-1, 0, 1, 2, 3]
    with pytest.raises(ValueError, match=r"math domain error|expected a"):
        run_all([(math.sqrt, (4.0,)), (math.sqrt, (-1.0,))], num_workers=num_workers)


def test_fits_shared_among_processes_are_those_of_one(pytestconfig):
    features, records, sources = make_tables()
    gate = without_search(load_tier(pytestconfig.rootpath, "mini").gate.to_dict())
    one, two = (
        fit_and_hold_out(
            features, records, gate=gate, sources=sources, target_model="t", draft_model="d", num_workers=num_workers
        )
        for num_workers in (1, 2)
    )
    assert one == two
    assert np.isfinite(one.predictor["model"]["positions"][0]["intercept"])
