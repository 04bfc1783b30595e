"""A study read from files: whole, measured and of the same adapters, or refused before a table is made."""

import json

import pandas as pd
import pytest
from frames import paired_effect
from test_join import CONTEXT, GATE, _cells, _summary

from lora_spec.cost_model import CostModel, fit_cost_model
from lora_spec.errors import EvidenceError, ResultError
from lora_spec.gate.certification import certify_predictions
from lora_spec.gate.fleet import decide_fleet
from lora_spec.plots.comparison import compare_verdicts
from lora_spec.plots.saving import csv_bytes
from lora_spec.plots.schemas import PAIRED_EFFECT, VERDICT_TABLE
from lora_spec.plots.study import load_study, tables_of
from lora_spec.results import write_json_atomically, write_result

NAMES = ("harmless", "broken")
SHA = "0" * 64
INTERVAL = {"estimate": 0.5, "lower": 0.4, "upper": 0.6, "level": 0.9}
RULE = {"stratum": "benign", "min_accepted_loss": 0.1, "min_goodput_loss": 0.02, "batch_size": 1}
RULE |= {"num_speculative_tokens": 3, "candidate_depths": [0, 3], "min_drafts": 1, "level": 0.9}
RULE |= {"num_bootstrap_draws": 100, "seed": 0}
EFFECT = {"answer": "GO", "rule": RULE, "accepted_loss": INTERVAL, "goodput_loss": INTERVAL, "sentence": "a test"}
EFFECT |= {"cost_context": {}, "strata": [], "adapters": [], "variance": {}, "order": [], "live": []}
POOL = {name: {"stratum": "benign", "domain": name} for name in NAMES}
SETTINGS = {"tier": "mini", "setup": "a fake engine", "gate": {**GATE, "level": 0.9}, "pool": POOL}


def _guess(summary):
    estimate = {**summary["estimate"], "mode": "checkpoint_only"}
    names = {"adapter": summary["adapter"], "adapter_sha256": SHA, "left_out": summary["adapter"]}
    return names | {"num_training_adapters": 5, "predictor_sha256": "1" * 64, "estimate": estimate}


@pytest.fixture(scope="module")
def parts():
    """Return the plain data of every file of a sound study, by what the file is."""
    summaries = [_summary(name) for name in NAMES]
    cost_model = fit_cost_model(_cells(), num_draws=50, seed=0).to_dict()
    predictions = {
        "context": {**CONTEXT, "prompt_set": "own"},
        "predictions": [_guess(summary) for summary in summaries],
        "excluded": [],
    }
    adapter = {"weights_sha256": SHA, "config_sha256": SHA, "num_modules": 1, "num_bytes": 1}
    features = [{"adapter": {"name": n, **adapter}, "status": "ok", "codes": [], "message": ""} for n in NAMES]
    provenance = {"tier": "mini", "evidence": "measured"}
    certification = certify_predictions(
        predictions,
        summaries,
        sources={name: name for name in NAMES},
        cost_model=CostModel.from_dict(cost_model),
        gate=GATE,
    )
    verdicts = decide_fleet(
        features,
        summaries,
        predictions,
        cost_model=cost_model,
        gate=GATE,
        context={},
        provenance=provenance,
        certification=certification,
    )
    cells = [cell.to_dict() for cell in _cells()]
    return json.loads(
        json.dumps(
            {
                "measured": {"adapters": summaries},
                "predictions": predictions,
                "cost_model": cost_model,
                "step_times": {"cells": cells, "engine": {}},
                "effect_gate": EFFECT,
                "certification": certification,
                "verdicts": [verdict.to_dict() for verdict in verdicts],
            }
        )
    )


@pytest.fixture
def load(parts, tmp_path):
    """Return a function that writes the study's files, one part changed, and reads them."""
    kinds = {"measured": "measured_acceptance", "step_times": "step_time_cells"}

    def _load(part=None, change=lambda data: None, settings=SETTINGS, comparison=None):
        data = json.loads(json.dumps(parts))
        replaced = change(data[part]) if part else None
        if replaced is not None:
            data[part] = replaced
        paths = {name: tmp_path / f"{name}.json" for name in data if name != "verdicts"}
        for name, path in paths.items():
            kind = kinds.get(name, name)
            write_result(path, kind=kind, evidence="measured", tier="mini", provenance={}, payload=data[name])
        verdicts = [tmp_path / f"v{index}.json" for index, _ in enumerate(data["verdicts"])]
        for path, verdict in zip(verdicts, data["verdicts"], strict=True):
            write_json_atomically(path, verdict)
        compared = None if comparison is None else tmp_path / "comparison.json"
        if compared is not None:
            kind = "predictor_comparison"
            write_result(compared, kind=kind, evidence="measured", tier="mini", provenance={}, payload=comparison)
        certifications = [paths.pop("certification")]
        return load_study(
            **paths, certifications=certifications, verdicts=verdicts, settings=settings, comparison=compared
        )

    return _load


COMPARED = ("adapter", "adapter_sha256", "source", "is_scored", "acceptance_length", "acceptance_rate_per_pos")


def _comparison(guesses, weights=SHA):
    """Return a comparison in which the gate's predictor and another one guess in two modes."""
    scores = ("spearman", "permutation_p", "auroc", "mismatch_spearman", "length_error", "calibration_error")
    contenders = [
        {"predictor": predictor, "mode": mode, "is_null": mode is None, "sees": "-", **dict.fromkeys(scores)}
        | {
            "guesses": {
                n: {"acceptance_length": v, "acceptance_rate_per_pos": None, "mismatch": None} for n, v in found.items()
            }
        }
        for predictor, mode, found in guesses
    ]
    adapters = [
        dict(zip(COMPARED, (name, weights, name, True, 1.5, [0.5]), strict=True))
        | {"mismatch": None, "is_net_loss": None}
        for name in NAMES
    ]
    question = {"load": None, "base_prompt_set": "common", "prevalence": None, "is_scored": False, "reason": "none"}
    empty = {"context": {}, "differences": [], "base_ablation": [], "lacking_modes": {}, "probe_curve": None}
    return empty | {"net_loss": question, "contenders": contenders, "adapters": adapters}


def test_other_modes_join_figure_3_as_points_of_the_gates_own_predictor(load, parts):
    chosen, gates_mode = CONTEXT["predictor"], CONTEXT["mode"]
    guesses = [
        (chosen, gates_mode, dict.fromkeys(NAMES, 9.0)),
        (chosen, "checkpoint_calib", {"harmless": 1.9, "broken": 1.1}),
        ("another", "checkpoint_base", dict.fromkeys(NAMES, 9.0)),
        ("norm_ridge", None, dict.fromkeys(NAMES, 9.0)),
    ]
    table = tables_of(load(comparison=_comparison(guesses)))["predicted_vs_measured"]
    points = table[table["mode"] == "checkpoint_calib"].set_index("adapter")
    assert points["predicted"].to_dict() == {"harmless": 1.9, "broken": 1.1}
    assert points[["predicted_lower", "predicted_upper", "is_abstained"]].isna().all(axis=None)
    assert set(table["mode"]) == {gates_mode, "checkpoint_calib"}
    assert not table.loc[table["mode"] == gates_mode, "is_abstained"].isna().any()


def test_a_comparison_of_other_weights_is_refused(load):
    with pytest.raises(ResultError, match="harmless"):
        load(comparison=_comparison([], weights="1" * 64))


def test_a_sound_study_gives_every_table(load):
    tables = tables_of(load())
    assert len(tables) == 7
    assert all((table["num_rows"] == len(table)).all() for table in tables.values())


def _first(**changes):
    return lambda verdicts: verdicts[0].update(changes)


BAD_VERDICTS = {
    "schema": _first(schema_version="99"),
    "action": _first(action="purple"),
    "speedup": _first(speedup="x"),
    "extra": _first(x=1),
    "tier": lambda verdicts: verdicts[0]["provenance"].update(tier="paper"),
    "no reasons": lambda verdicts: verdicts[0].pop("reasons") and None,
    "loads": lambda verdicts: verdicts[0]["speedup"]["context"].update(by_load=None),
    "interval": lambda verdicts: verdicts[0]["speedup"].update(lower=9.0),
    "name": lambda verdicts: verdicts[0]["adapter"].update(name="../x"),
    "depth": _first(num_speculative_tokens=None),
    "list": lambda verdicts: [[1], *verdicts[1:]],
    "missing": lambda verdicts: verdicts[1:],
    "twice": lambda verdicts: [*verdicts, verdicts[0]],
    "one mode": lambda verdicts: [verdict for verdict in verdicts if verdict["mode"] == "measured"],
}


@pytest.mark.parametrize("change", BAD_VERDICTS.values(), ids=BAD_VERDICTS)
def test_a_verdict_that_is_not_whole_or_not_of_the_study_is_refused(load, tmp_path, change):
    with pytest.raises(ResultError, match=str(tmp_path)):
        load("verdicts", change)


def test_a_verdict_that_rests_on_no_measurement_is_refused(load):
    with pytest.raises(EvidenceError, match="synthetic-smoke"):
        load("verdicts", lambda verdicts: verdicts[0]["provenance"].update(evidence="synthetic-smoke"))


@pytest.mark.parametrize(
    "part", ["measured", "predictions", "cost_model", "step_times", "effect_gate", "certification"]
)
@pytest.mark.parametrize("payload", [[], {}, "x", {"x": 1}], ids=["list", "empty", "text", "other"])
def test_any_part_with_another_payload_is_refused_by_its_name(load, tmp_path, part, payload):
    with pytest.raises(ResultError, match=f"{tmp_path}/{part}.json"):
        load(part, lambda _: payload)


def _estimate(measured):
    return measured["adapters"][0]["estimate"]


IMPOSSIBLE = {
    "rising rates": lambda m: _estimate(m).update(acceptance_rate_per_pos=[0.1, 0.2, 0.3, 0.4]),
    "long length": lambda m: _estimate(m)["acceptance_length_by_depth"][0].update(upper=3.0),
    "swapped interval": lambda m: _estimate(m)["acceptance_length_by_depth"][0].update(lower=1.99, estimate=1.1),
    "fewer depths": lambda m: _estimate(m)["lower"].pop() and None,
    "counts": lambda m: m["adapters"][0]["effects"][0]["counts"]["base"].update(num_drafts=0),
    "half a count": lambda m: m["adapters"][0]["effects"][0].update(num_prompts=0.5),
    "twice": lambda m: m["adapters"].append(m["adapters"][0]),
    "none": lambda m: {"adapters": []},
    "no effects": lambda m: m["adapters"][0].update(effects=[]),
}


@pytest.mark.parametrize("change", IMPOSSIBLE.values(), ids=IMPOSSIBLE)
def test_an_impossible_measurement_is_refused_by_its_file(load, tmp_path, change):
    with pytest.raises(ResultError, match=f"{tmp_path}/measured.json"):
        load("measured", change)


def test_a_pool_without_a_measured_adapter_is_refused(load):
    with pytest.raises(ResultError, match="row of the pool"):
        load(settings={**SETTINGS, "pool": {}})


def test_no_part_of_a_table_passes_for_the_table(tmp_path):
    data, path = csv_bytes(paired_effect()), tmp_path / "t.csv"
    for end in range(0, len(data), 7):
        path.write_bytes(data[:end])
        with pytest.raises(ResultError, match=str(path)):
            PAIRED_EFFECT.read_csv(path)
    for end in [index + 1 for index, byte in enumerate(data[:-1]) if byte == ord("\n")]:
        path.write_bytes(data[:end])
        with pytest.raises(ResultError, match=str(path)):
            PAIRED_EFFECT.read_csv(path)
    path.write_bytes(data)
    assert len(PAIRED_EFFECT.read_csv(path)) == len(paired_effect())


@pytest.mark.parametrize("value", ["1e300", "9" * 30, "1e400", "nan", "inf"])
def test_a_whole_number_that_is_none_is_refused_with_table_and_column(tmp_path, value):
    frame = paired_effect().astype({"num_drafts": object})
    frame.loc[0, "num_drafts"] = value
    (tmp_path / "t.csv").write_bytes(csv_bytes(frame))
    with pytest.raises(ResultError, match=r"paired_effect.*num_drafts"):
        PAIRED_EFFECT.read_csv(tmp_path / "t.csv")


def test_only_measured_tables_are_compared(load):
    table = VERDICT_TABLE.check(tables_of(load())["verdicts"])
    assert all(line.is_equal for line in compare_verdicts(table, table))
    with pytest.raises(EvidenceError, match="contract-only"):
        compare_verdicts(pd.DataFrame(table).assign(evidence="contract-only"), table)


def test_tables_of_two_setups_are_not_compared_and_another_depth_is_a_difference(load):
    table = pd.DataFrame(VERDICT_TABLE.check(tables_of(load())["verdicts"]))
    for column, value in (("setup", "another engine"), ("tier", "cpu"), ("interval_level", 0.5)):
        with pytest.raises(EvidenceError, match=f"differ in {column}"):
            compare_verdicts(table.assign(**{column: value}), table)
    deeper = table.assign(measured_num_speculative_tokens=table["measured_num_speculative_tokens"] + 1)
    known = table["measured_num_speculative_tokens"].notna().tolist()
    assert known.count(True)
    assert [not line.is_equal for line in compare_verdicts(deeper, table)] == known
