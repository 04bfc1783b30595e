"""Leaving a family out: abstention rises where the family is elsewhere, and stays where it is a mere name."""

import json
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

import pytest
from hand_made import cost_model

from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.errors import ResultError
from lora_spec.gate.commitment import certified_context
from lora_spec.gate.settings import gate_settings
from lora_spec.gate.unseen_families import KINDS, unseen_families
from lora_spec.gate.unseen_families_payload import read_unseen_families
from lora_spec.predictors.held_out import fit_and_hold_out
from lora_spec.predictors.smoke import make_up_adapters, without_search
from lora_spec.results import write_result

ROOT = Path(__file__).parents[2]
NUM_SOURCES = 15
FAR_SOURCES = {f"source-{index:02d}" for index in (0, 5, 10)}
PAIR = {"target_model": "made-up target", "draft_model": "made-up drafter"}
COSTS = cost_model({1: (1, 1.1, 1.2, 1.3, 1.4)})


@dataclass
class Pool:
    features: list
    records: list
    sources: dict
    families: dict

    def shifted(self, shift, families):
        """Return the pool with some columns of one family moved: unlike all others, and like each other."""
        moved = [
            self._moved(item, shift if families[item["adapter"]["name"]] == "far" else 0) for item in self.features
        ]
        return Pool(moved, self.records, self.sources, {name: {"source": f} for name, f in families.items()})

    def _moved(self, item, shift):
        own = item["columns"]["checkpoint_only"]
        columns = {name: value + shift * ("effective" in name) for name, value in own.items()}
        return {**item, "columns": {**item["columns"], "checkpoint_only": columns}}


@pytest.fixture(scope="module")
def gate():
    values = without_search(read_config(ROOT / "configs" / "gate.yaml", GateConfig).to_dict())
    options = {"elastic_net": {"penalties": [0.03], "l1_ratios": [0.5]}, "min_adapters": 0}
    comparison = {**values["comparison"], "num_bootstrap_draws": 200}
    load = {"headline_load": {"batch_size": 1, "num_context_tokens": 64}, "map_batch_sizes": [1]}
    return {**values, **load, "comparison": comparison, "predictor": {**values["predictor"], **options}}


@pytest.fixture(scope="module")
def made():
    found = make_up_adapters(seed=1, num_sources=NUM_SOURCES, per_source=2)
    return Pool(found.features, found.records, found.sources, {})


def _evaluate(pool, gate, *, threshold=1.0, scored=None, change=list):
    fitted = fit_and_hold_out(pool.features, pool.records, gate=gate, sources=pool.sources, **PAIR)
    certificate = {
        "threshold": threshold,
        "adapters": {"num_committed": 9, "num_wrong": 0, "upper": 0.2},
        "confidence": 0.9,
    }
    certification = {
        "rule": gate["abstention"],
        "directions": [{"chosen_on": [], "certified_on": [], "certificate": certificate}],
        "context": certified_context(fitted.predictions["context"], gate_settings(gate)),
    }
    return unseen_families(
        pool.features,
        pool.records,
        predictions=fitted.predictions | {"predictions": change(fitted.predictions["predictions"])},
        certification=certification,
        cost_model=COSTS,
        gate=gate,
        sources=pool.sources,
        scored=list(pool.sources) if scored is None else scored,
        families=pool.families,
    )


def _by_source(pool):
    return {name: "far" if source in FAR_SOURCES else "near" for name, source in pool.sources.items()}


@pytest.fixture(scope="module")
def with_shift(made, gate):
    return _evaluate(made.shifted(3.0, _by_source(made)), gate)


def _family(payload, name):
    (found,) = [item for item in payload["families"] if item["family"] == name]
    return found


def test_a_family_that_lies_elsewhere_is_abstained_on_once_none_of_it_was_seen(with_shift):
    far = _family(with_shift, "far")
    assert far["num_adapters"] == 6
    assert far["ordinary"]["num_abstained"] < 3
    assert far["unseen"]["num_abstained"] == far["unseen"]["num_out_of_distribution"] == 6
    assert far["rise_of_abstained_share"]["lower"] > 0
    assert far["answer"] == "rises"


def test_a_family_that_is_a_mere_name_raises_nothing_beyond_noise(made, gate):
    found = _evaluate(made.shifted(0.0, _by_source(made)), gate)
    far = _family(found, "far")
    assert abs(far["unseen"]["num_abstained"] - far["ordinary"]["num_abstained"]) <= 1
    assert far["answer"] != "rises"


def test_counts_of_families_add_up_to_those_of_their_kind_and_of_their_adapters(with_shift):
    kinds = {item["kind"]: item for item in with_shift["kinds"]}
    assert set(kinds) == set(KINDS)
    assert kinds["method"]["answer"].startswith("not judged")
    parts = [item for item in with_shift["families"] if item["kind"] == "source"]
    for key in ("num_adapters", "num_newly_abstained", "num_no_longer_abstained"):
        assert sum(item[key] for item in parts) == kinds["source"][key]
    for arm in ("ordinary", "unseen"):
        counted = Counter(row["family"] for row in with_shift["adapters"] if row[arm]["is_abstained"])
        assert {item["family"]: item[arm]["num_abstained"] for item in parts} == {
            item["family"]: counted[item["family"]] for item in parts
        }


def test_neither_the_source_nor_the_family_teaches(with_shift):
    for row in with_shift["adapters"]:
        expected = NUM_SOURCES - 3 if row["family"] == "far" else 3
        assert (row["num_training_sources"], row["num_training_adapters"]) == (expected, 2 * expected)


def test_where_nothing_is_committed_abstention_cannot_rise_and_the_answer_says_so(made, gate):
    found = _evaluate(made.shifted(3.0, _by_source(made)), gate, threshold=None, scored=["smoke-00", "smoke-05"])
    assert _family(found, "far")["answer"] == "cannot rise: every one is abstained on already"
    assert _family(found, "far")["num_adapters"] == 2


def test_a_family_without_which_too_little_is_left_is_counted_and_not_judged(made, gate):
    families = {name: "far" if int(source[-2:]) < NUM_SOURCES - 2 else "near" for name, source in made.sources.items()}
    found = _evaluate(made.shifted(0.0, families), gate, scored=["smoke-00", "smoke-14"])
    far = _family(found, "far")
    assert (far["num_adapters"], far["num_not_fitted"]) == (0, 1)
    assert far["answer"].startswith("not judged")
    assert "2 sources cannot train" in found["adapters"][0]["problem"]


def test_a_result_is_read_back_as_it_was_written_and_a_damaged_one_is_refused(with_shift, tmp_path):
    path = tmp_path / "unseen.json"
    how = {"kind": "unseen_families", "evidence": "measured", "tier": "cpu", "provenance": {}}
    write_result(path, payload=with_shift, **how)
    assert read_unseen_families(path, tier="cpu").payload == json.loads(json.dumps(with_shift))
    write_result(path, payload={**with_shift, "kinds": [{}]}, **how)
    with pytest.raises(ResultError, match="missing"):
        read_unseen_families(path, tier="cpu")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda items: items[1:], "has no ordinary prediction"),
        (lambda items: [items[0] | {"left_out": "elsewhere"}, *items[1:]], "made without 'elsewhere'"),
        (lambda items: [items[0] | {"adapter_sha256": "other"}, *items[1:]], "predictions are of weights other"),
    ],
)
def test_ordinary_predictions_that_are_not_held_out_are_refused(made, gate, change, message):
    with pytest.raises(ResultError, match=message):
        _evaluate(made, gate, change=change)
