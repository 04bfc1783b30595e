"""Figure 4: every contender has its row, nulls are told apart, and what may not be given is said."""

import frames
import numpy as np
import pytest

from lora_spec.plots.predictor_scores_table import predictor_scores_table
from lora_spec.plots.registry import FIGURES

DRAW = FIGURES["predictor_scores"].draw


def _interval(estimate):
    return {"estimate": estimate, "lower": estimate - 0.1, "upper": estimate + 0.1, "level": 0.9}


def _contender(predictor, mode, spearman, auroc):
    return {
        "predictor": predictor,
        "mode": mode,
        "is_null": mode is None,
        "spearman": None if spearman is None else _interval(spearman),
        "auroc": None if auroc is None else _interval(auroc),
        "permutation_p": None if spearman is None else 0.02,
    }


def _comparison(*, load=True):
    return {
        "context": {"num_scored_adapters": 10, "num_sources": 9, "num_speculative_tokens": 3, "level": 0.9},
        "net_loss": {
            "load": {"batch_size": 8} if load else None,
            "prevalence": 0.4 if load else None,
            "reason": None if load else "the base gains nowhere",
        },
        "contenders": [
            _contender("gam", "checkpoint_only", 0.5, 0.8 if load else None),
            _contender("flat", "checkpoint_only", None, None),
            _contender("mean", None, None, None),
            _contender("norm_ridge", None, 0.3, 0.7 if load else None),
        ],
    }


def test_the_table_has_a_row_per_contender_and_score_and_leaves_out_nulls_that_order_nothing():
    table = predictor_scores_table(_comparison(), tier="cpu", setup="a pair")
    assert list(table["predictor"].unique()) == ["gam", "flat", "norm_ridge"]
    assert len(table) == 6
    assert table["question"].unique().tolist() == ["K=3 is a net loss at batch 8: 4 of 10 adapters"]
    flat = table[table["predictor"] == "flat"]
    assert flat["estimate"].isna().all()


def test_without_a_load_the_panel_of_auroc_says_why():
    fig = DRAW(predictor_scores_table(_comparison(load=False), tier="cpu", setup="a pair"))
    words = " ".join(" ".join(text.get_text().split()) for text in fig.axes[1].texts)
    assert "not given: the base gains nowhere" in words
    assert fig.axes[1].collections == [] or len(fig.axes[1].collections) == 0


def test_every_contender_has_a_row_and_every_group_a_heading():
    frame = frames.predictor_scores()
    left = DRAW(frame).axes[0]
    assert len(left.get_yticklabels()) == frame.groupby(["predictor", "mode"], dropna=False).ngroups
    headings = [text.get_text() for text in left.texts if text.get_fontweight() == "bold"]
    assert headings == ["nulls", "checkpoint_only", "checkpoint_base", "checkpoint_meta", "checkpoint_calib"]


@pytest.mark.parametrize(("panel", "score"), [(0, "spearman"), (1, "auroc")])
def test_the_dashed_line_stands_at_the_best_null_that_does_not_run_the_adapter(panel, score):
    frame = frames.predictor_scores()
    frame.loc[frame["predictor"] == "own_traffic", "predictor"] = "direct_probe"
    guessed = frame["mode"].isna() & (frame["predictor"] != "direct_probe") & (frame["score"] == score)
    dashed = [line for line in DRAW(frame).axes[panel].lines if line.get_linestyle() == "--"]
    assert [np.unique(line.get_xdata()).tolist() for line in dashed] == [[frame.loc[guessed, "estimate"].max()]]
    probed = frame[(frame["predictor"] == "direct_probe") & (frame["score"] == score)]
    assert probed["estimate"].item() > frame.loc[guessed, "estimate"].max()


def test_the_figure_says_how_many_adapters_it_rests_on():
    texts = [text.get_text() for text in DRAW(frames.predictor_scores(10)).findobj() if hasattr(text, "get_text")]
    assert any("n = 10 adapters from 10 sources" in text for text in texts)
