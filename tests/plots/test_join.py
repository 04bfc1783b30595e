"""The tables of a study whose acceptance and step times are known by construction."""

from dataclasses import replace

import pytest

from lora_spec.cost_model import fit_cost_model
from lora_spec.engines import AdapterRef
from lora_spec.engines.fake import FakeEngine, FakeReplayer
from lora_spec.gate import gate_settings
from lora_spec.gate.certification import certify_predictions
from lora_spec.gate.fleet import decide_fleet
from lora_spec.measurement import Prompt
from lora_spec.measurement.collect import CollectSettings, LoraCollector, PromptSet
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.plots.join import TABLES, Study
from lora_spec.plots.registry import FIGURES
from lora_spec.plots.schemas import VERDICT_TABLE
from lora_spec.records import AcceptanceEstimate, AcceptanceRecord
from lora_spec.step_time_cell import StepTimeCell

ACCEPTANCE = {None: 0.8, "harmless": 0.8, "shifted": 0.4, "broken": 0.02}
GATE = {
    "standing_num_speculative_tokens": 3,
    "candidate_depths": [0, 1, 2, 3, 4],
    "headline_load": {"batch_size": 1},
    "map_batch_sizes": [1, 8],
    "max_green_loss": 0.03,
    "dead_band": 0.02,
    "hot_traffic_share": 0.2,
    "default_traffic_share": 0.0,
    "abstention": {"max_loss": 0.05, "max_risk": 0.1, "confidence": 0.9, "seed": 0},
}
CONTEXT = {"mode": "checkpoint_only", "predictor": "elastic_net", "training_sha256": "0" * 64}
CONTEXT |= {"target_model": "t", "draft_model": "d"}


def _summary(name):
    prompts = tuple(Prompt(f"p-{i}", tuple(range(i, i + 9))) for i in range(40))
    collector = LoraCollector(
        FakeEngine(ACCEPTANCE, num_speculative_tokens=4),
        {"final": FakeReplayer(ACCEPTANCE)},
        CollectSettings(3, 4, 16, 0),
    )
    records = collector.collect(AdapterRef(name, "folder", 8), [PromptSet("own", "sha", prompts, 80)])
    how = SummarySettings(num_speculative_tokens=3, min_drafts=16, level=0.9, num_bootstrap_draws=200, seed=0)
    return summarise_record(AcceptanceRecord(name, "0" * 64, records), how)


def _cells():
    """Return steps of 10 + 1.5 K + (1 + K / 2) B ms: alone, T_1 = 1.18 T_0 and T_3 = 1.55 T_0."""
    return [
        StepTimeCell(k, b, trial, 8, 64, (10 + 1.5 * k + (1 + k / 2) * b,) * 5, 0.0, 0.0)
        for k in range(5)
        for b in (1, 4, 8)
        for trial in range(3)
    ]


@pytest.fixture(scope="module")
def study():
    names = ["harmless", "shifted", "broken"]
    summaries = [_summary(name) for name in names]
    cost_model = fit_cost_model(_cells(), num_draws=50, seed=0)
    features = [
        {"adapter": {"name": name, "weights_sha256": "0" * 64}, "status": "ok", "codes": [], "message": ""}
        for name in names
    ]
    guesses = [
        {
            "adapter": summary["adapter"],
            "adapter_sha256": summary["adapter_sha256"],
            "estimate": {**summary["estimate"], "mode": "checkpoint_only"},
            "left_out": summary["adapter"],
            "predictor_sha256": "1" * 64,
        }
        for summary in summaries
    ]
    predictions = {"context": CONTEXT, "predictions": guesses}
    certification = certify_predictions(
        predictions, summaries, sources={name: name for name in names}, cost_model=cost_model, gate=GATE
    )
    verdicts = decide_fleet(
        features,
        summaries,
        predictions,
        cost_model=cost_model.to_dict(),
        gate=GATE,
        context={},
        provenance={},
        certification=certification,
    )
    return Study(
        tier="mini",
        evidence="synthetic-smoke",
        setup="a fake engine",
        level=0.9,
        pool={name: {"stratum": "benign", "domain": name} for name in names},
        measured={summary["adapter"]: summary for summary in summaries},
        predicted={g["adapter"]: AcceptanceEstimate.from_dict(g["estimate"]) for g in guesses},
        verdicts={(v.adapter["name"], v.mode): v.to_dict() for v in verdicts},
        cost_model=cost_model,
        cells=_cells(),
        gate=gate_settings(GATE),
        effect={"answer": "GO", "sentence": "a test", "rule": {"min_accepted_loss": 0.1, "num_speculative_tokens": 3}},
        certifications=[certification],
        map_batch_sizes=[1, 8],
    )


@pytest.mark.parametrize("name", sorted(TABLES.keys() & FIGURES.keys()))
def test_every_joined_figure_can_be_drawn_from_its_table(study, name):
    FIGURES[name].draw(TABLES[name](study))


def test_verdicts_follow_the_known_acceptance(study):
    table = VERDICT_TABLE.check(TABLES["verdicts"](study)).set_index("adapter")
    assert table.loc["harmless", "measured_action"] == "green"
    assert table.loc["shifted", "measured_action"] == "amber"
    assert table.loc["broken", "measured_action"] == "red"


def test_threshold_is_a_share_of_the_base_arms_accepted_drafts(study):
    table = TABLES["paired_effect"](study)
    base = 0.8 + 0.8**2 + 0.8**3
    assert table["threshold"].tolist() == pytest.approx([-0.1 * base] * 3, rel=0.06)
    assert table.set_index("adapter").loc["broken", "upper"] < table["threshold"].max()


def test_cost_table_is_exact_for_a_linear_law_and_holds_out_the_middle(study):
    table = TABLES["cost_model_fit"](study)
    assert table["predicted_ms"].tolist() == pytest.approx(table["measured_ms"].tolist())
    assert set(table.loc[table["is_held_out"], "batch_size"]) == {4}
    assert study.setup not in set(table["setup"])  # prompts and lengths of the counts are not those of the clock


def test_predictions_that_are_the_truth_are_all_committed_and_none_is_wrong(study):
    table = TABLES["risk_coverage"](study)
    both = table[table["kind"] == "together"].iloc[0]
    assert (both["num_judged"], both["num_committed"], both["num_wrong"]) == (3, 3, 0)
    assert both["num_committed_sources"] == 3
    assert (table.loc[table["kind"] == "curve", "risk"] == 0).all()


def test_each_mode_has_a_curve_and_a_panel_of_its_own(study):
    first = study.certifications[0]
    probed = {**first, "context": {**first["context"], "mode": "checkpoint_calib"}, "curve": []}
    both = replace(study, certifications=[first, probed])
    table = TABLES["risk_coverage"](both)
    assert table.groupby("mode")["kind"].agg(set).to_dict() == {
        "checkpoint_only": {"curve", "certified", "together"},
        "checkpoint_calib": {"certified", "together"},
    }
    drawn = FIGURES["risk_coverage"].draw(table)
    assert [ax.get_title() for ax in drawn.axes] == ["checkpoint_only", "checkpoint_calib"]
    assert both.predicted_mode == "checkpoint_only"


def test_an_adapter_that_is_off_has_no_speedup_below_one_and_inverts_nothing_with_another(study):
    table = TABLES["rank_disagreement"](study)
    off = table[table["num_speculative_tokens"] == 0]
    assert "broken" in set(off["adapter"])
    assert (off[["speedup", "lower"]] == 1).all(axis=None)
    assert not table[["num_won", "num_lost"]].to_numpy().any()  # one law of acceptance: more of it is more speed


def test_ranks_by_acceptance_are_the_same_at_every_load(study):
    table = TABLES["rank_disagreement"](study)
    assert table.groupby("adapter")["acceptance_rank"].nunique().eq(1).all()
