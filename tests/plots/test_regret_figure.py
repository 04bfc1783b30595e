"""Figure 5b: its table from a result, and what its rows and title say."""

import frames
import pandas as pd
import pytest

from lora_spec.plots.gate_regret_table import gate_regret_table
from lora_spec.plots.registry import FIGURES
from lora_spec.stress.mixes.payload import GateRegretPayload
from lora_spec.typed import check_type

DRAW = FIGURES["gate_regret"].draw
SPREAD = {"mean": 0.02, "p5": 0.0, "p25": 0.01, "p50": 0.02, "p75": 0.03, "p95": 0.04, "max": 0.05}


def _payload():
    contender = {
        "policy": "verdicts",
        "basis": "measured",
        "variant": "plain",
        "is_ours": True,
        "overall": SPREAD,
        "by_load": [{"batch_size": 1, **SPREAD}, {"batch_size": 16, **SPREAD, "mean": 0.025}],
        "by_pattern": {"uniform": SPREAD},
        "is_mean_met": True,
        "is_p95_met": True,
        "regrets": [[0.02], [0.025]],
    }
    context = {
        "standing_num_speculative_tokens": 3,
        "batch_sizes": [1, 16],
        "num_scored_adapters": 9,
        "num_measured_adapters": 12,
        "requests_per_adapter": 20,
        "output_tokens": 64,
        "spared_token_ms": 4.0,
        "off_in_engine_taxes": None,
        "not_evaluated": [{"policy": "merged_own_pool", "reason": "not timed"}],
    }
    bars = {"max_mean_regret": 0.03, "max_p95_regret": 0.1, "max_tpot_loss": 0.02, "tpot_level": 0.95}
    mixes = [{"pattern": "uniform", "num_adapters": 8}]
    return {
        "context": context,
        "bars": bars,
        "mixes": mixes,
        "contenders": [contender],
        "load_cells": [],
        "by_saving": [],
    }


def test_the_table_has_one_row_over_all_loads_and_one_at_each():
    check_type(GateRegretPayload, _payload(), "payload")
    table = gate_regret_table(_payload(), tier="cpu", setup="a pair")
    assert table["mean"].tolist() == [0.02, 0.02, 0.025]
    assert table["load_batch_size"].isna().tolist() == [True, False, False]
    assert set(table["num_adapters"]) == {9}
    assert table["interval_level"].isna().all()


def test_rows_stand_in_the_order_of_the_table_and_ours_are_told_apart():
    labels = DRAW(frames.gate_regret()).axes[0].get_yticklabels()
    assert [label.get_text() for label in labels] == [
        "always off",
        "always K=3",
        "best K, probe of 4 prompts",
        "verdicts, checkpoint_only",
        "verdicts, measured, live rule",
        "verdicts, measured",
    ]
    assert len({label.get_color() for label in labels[:3]} & {label.get_color() for label in labels[3:]}) == 0


def test_the_title_says_what_verdicts_as_they_stand_lose():
    (legend,) = DRAW(frames.gate_regret()).legends
    title = " ".join(legend.get_title().get_text().split())
    assert title.endswith("checkpoint_only 20.0 %; measured 1.2 %")


def test_the_title_says_what_an_engine_for_the_mix_makes_of_them():
    frame = frames.gate_regret()
    frame.loc[frame["variant"] == "live rule", "variant"] = "engine for the mix"
    (legend,) = DRAW(frame).legends
    title = " ".join(legend.get_title().get_text().split())
    assert title.endswith("checkpoint_only 20.0 %; measured 1.2 %, for the mix 1.3 %")


@pytest.mark.parametrize("load", [None, 16])
def test_a_panel_shows_the_rows_of_its_load(load):
    frame = frames.gate_regret()
    panel = {None: 0, 1: 1, 16: 2}[load]
    part = frame[frame["load_batch_size"].isna() if load is None else frame["load_batch_size"] == load]
    points = [line.get_xdata()[0] for line in DRAW(frame).axes[panel].lines if line.get_marker() == "o"]
    assert points == pytest.approx(part["mean"].tolist())


def test_a_regret_below_nothing_is_drawn_at_the_edge():
    frame = frames.gate_regret()
    frame.loc[0, ["p5", "p25", "p50", "mean"]] = -1e-12
    assert isinstance(frame, pd.DataFrame)
    DRAW(frame)
