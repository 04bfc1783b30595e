import dataclasses

import numpy as np
import pytest
from hand_made import RATIOS, SETTINGS, cost_model, estimate, geometric

from lora_spec.cost_model import break_even_token_acceptance_prob
from lora_spec.gate import decide, decision_map

ALPHAS = np.linspace(0, 0.98, 50).tolist()


def test_the_map_covers_the_grid_once():
    cells = decision_map(cost_model(), SETTINGS, token_acceptance_probs=ALPHAS)
    assert [(c.batch_size, c.token_acceptance_prob) for c in cells] == [(b, a) for b in RATIOS for a in ALPHAS]


@pytest.mark.parametrize("batch_size", RATIOS)
def test_red_ends_where_the_first_depth_breaks_even(batch_size):
    exact = dataclasses.replace(SETTINGS, max_green_loss=0.0, dead_band=0.0)
    cells = decision_map(cost_model(), exact, token_acceptance_probs=ALPHAS, batch_sizes=[batch_size])
    threshold = min(break_even_token_acceptance_prob(RATIOS[batch_size][k], k) for k in (1, 2, 3))
    for cell in cells:
        assert (cell.action == "red") == (cell.token_acceptance_prob < threshold)


def test_every_point_agrees_with_the_verdict_of_an_adapter_there():
    model = cost_model()
    for cell in decision_map(model, SETTINGS, token_acceptance_probs=ALPHAS[::5]):
        settings = dataclasses.replace(SETTINGS, headline_batch_size=cell.batch_size)
        verdict = decide(estimate(geometric(cell.token_acceptance_prob)), model, settings=settings, adapter={})
        assert (verdict.action, verdict.num_speculative_tokens) == (cell.action, cell.num_speculative_tokens)
        if cell.action != "red":
            assert verdict.speedup.estimate == pytest.approx(cell.speedup)


def test_red_cells_run_at_the_speed_of_no_speculation():
    cells = decision_map(cost_model(), SETTINGS, token_acceptance_probs=[0.0])
    assert {(cell.action, cell.speedup) for cell in cells} == {("red", 1.0)}
