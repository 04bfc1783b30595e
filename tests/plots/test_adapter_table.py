"""The table of adapters: rows of a pool, training records and overlap, side by side."""

import json
from pathlib import Path

import pandas as pd
import pytest

from lora_spec.config import load_tier
from lora_spec.errors import ResultError
from lora_spec.plots.adapter_table import ADAPTER_TABLE, adapter_frame, read_held_out_scores, save_adapter_table

ROOT = Path(__file__).parents[2]
POOL = load_tier(ROOT, "cpu").adapter_pool
NAMES = ("french_r2_mlp", "reversed_words_r4_attn_plus", "upper_case_r4_qv", "upper_case_r4_qv_half", "zero")


def _frame(names=NAMES, overlap=None):
    pool = [POOL.find(name).to_dict() for name in names]
    scores = {
        row["name"]: read_held_out_scores(ROOT / row["path"], row["name"]) for row in pool if row["source"] == "shipped"
    }
    return adapter_frame(pool, scores, overlap, tier="cpu", setup="made up").set_index("adapter")


def test_a_shipped_adapter_has_the_rates_that_its_training_record_states():
    row = _frame().loc["french_r2_mlp"]
    told = json.loads((ROOT / POOL.find("french_r2_mlp").path / "recipe.json").read_text())
    assert row["loss_nats_after"] == pytest.approx(told["held_out_after"]["loss_nats_per_token"])
    assert row["token_accuracy_before"] == pytest.approx(told["held_out_before"]["token_accuracy"])
    assert row["exact_share_after"] == pytest.approx(told["held_out_after"]["exact_share"])
    assert row["loss_nats_after"] < row["loss_nats_before"]


def test_a_derived_adapter_has_its_parents_shape_and_no_score_of_its_own():
    row = _frame().loc["upper_case_r4_qv_half"]
    assert (row["parent"], row["method"], row["rank"]) == ("upper_case_r4_qv", "LoRA", 4)
    assert pd.isna(row["loss_nats_after"])
    assert pd.isna(row["learning_rate"])
    assert pd.isna(_frame(("upper_case_r4_qv_half",)).loc["upper_case_r4_qv_half", "rank"])


def test_methods_are_named_and_unknown_overlap_is_missing():
    frame = _frame()
    assert frame.loc["reversed_words_r4_attn_plus", "method"] == "LoRA+"
    assert frame["seen_ngram_share"].isna().all()


def test_overlap_is_that_of_the_adapters_domain():
    overlap = json.loads((ROOT / "reference/cpu/domain_overlap.json").read_text())["payload"]
    seen = _frame(overlap=overlap)["seen_ngram_share"]
    assert seen["zero"] > 10 * seen["upper_case_r4_qv"]
    assert seen["upper_case_r4_qv"] == seen["upper_case_r4_qv_half"]


def test_the_files_hold_every_adapter_and_the_csv_reads_back(tmp_path):
    frame = _frame().reset_index()
    save_adapter_table(frame, tmp_path / "adapters", csv=tmp_path / "tables/adapters.csv")
    back = ADAPTER_TABLE.read_csv(tmp_path / "tables/adapters.csv")
    pd.testing.assert_frame_equal(back, ADAPTER_TABLE.check(frame))
    for ending in ("txt", "html"):
        text = (tmp_path / f"adapters.{ending}").read_text()
        assert all(name in text for name in NAMES)
        assert "nan" not in text.lower()


def test_a_folder_without_a_record_of_its_training_is_refused(tmp_path):
    (tmp_path / "recipe.json").write_text('{"row": {}}')
    with pytest.raises(ResultError, match=r"recipe\.json"):
        read_held_out_scores(tmp_path, "a")


@pytest.mark.parametrize(
    ("when", "change"),
    [
        ("after", {"num_answer_tokens": 0, "num_correct_tokens": 0}),
        ("after", {"num_pairs": 0, "num_exact_pairs": 0}),
        ("after", {"num_exact_pairs": 99}),
        ("after", {"num_correct_tokens": -1}),
        ("after", {"sum_loss_nats": -1.0}),
        ("before", {"num_answer_tokens": 10**6}),
    ],
)
def test_held_out_sums_that_cannot_be_are_refused(tmp_path, when, change):
    recipe = json.loads((ROOT / POOL.find("french_r2_mlp").path / "recipe.json").read_text())
    recipe[f"held_out_{when}"] |= change
    (tmp_path / "recipe.json").write_text(json.dumps(recipe))
    with pytest.raises(ResultError, match="contradict each other"):
        read_held_out_scores(tmp_path, "french_r2_mlp")


def test_a_folder_of_another_adapter_and_scores_without_a_row_are_refused():
    folder = ROOT / POOL.find("french_r2_mlp").path
    with pytest.raises(ResultError, match="is of adapter 'french_r2_mlp', asked for 'zero'"):
        read_held_out_scores(folder, "zero")
    scores = {"ghost": read_held_out_scores(folder, "french_r2_mlp")}
    row = POOL.find("zero").to_dict()
    with pytest.raises(ResultError, match="'ghost' has task scores and no row"):
        adapter_frame([row], scores, None, tier="cpu", setup="made up")
    with pytest.raises(ResultError, match="'zero' stands twice among the rows"):
        adapter_frame([row, row], {}, None, tier="cpu", setup="made up")
