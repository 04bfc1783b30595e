"""A live run's record: kept whole, compared trial by trial, and the simulator held against it."""

import json
from dataclasses import replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from live_cases import COST, LENGTHS, RATES, TRAFFIC, planned, record_of, write_run

from lora_spec.errors import ResultError
from lora_spec.results import write_json_atomically
from lora_spec.stress.live import TrialRecord, kept_trial, trial_path
from lora_spec.stress.live_simulation import validate_on_live
from lora_spec.stress.live_summary import live_stress_payload
from lora_spec.stress.live_table import read_live


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """Return where a run lies, and its trials."""
    path = tmp_path_factory.mktemp("live") / "live.parquet"
    return path, write_run(path)


@pytest.fixture(scope="module")
def live(run):
    return read_live(run[0], tier="made-up")


def test_what_is_read_is_what_was_written(run, live):
    assert live.records == {record.name: record.records for _, record in run[1]}
    assert [trial["policy"] for trial in live.payload["trials"]] == [item.place.policy for item, _ in run[1]]
    assert [trial["other_cores"] for trial in live.payload["trials"]] == [0.05] * len(run[1])


def test_a_record_of_another_tier_or_without_some_requests_is_refused(run, tmp_path):
    with pytest.raises(ResultError, match="made for tier 'made-up'"):
        read_live(run[0], tier="cpu")
    table = pq.read_table(run[0])
    names = table.column("trial").to_pylist()
    pq.write_table(table.filter([name != names[0] for name in names]), tmp_path / "cut.parquet")
    with pytest.raises(ResultError, match=f"{names[0]}' has no requests"):
        read_live(tmp_path / "cut.parquet")


def test_a_kept_trial_comes_back_equal_and_one_of_other_inputs_or_cut_short_does_not(tmp_path):
    item = planned()["limited"][0]
    record = record_of(item)
    assert kept_trial(tmp_path, item.trial) is None
    path = trial_path(tmp_path, item.trial)
    write_json_atomically(path, record.to_dict())
    # Lists of JSON are not the tuples that went in; everything else is.
    assert kept_trial(tmp_path, item.trial) == TrialRecord.from_dict(json.loads(json.dumps(record.to_dict())))
    assert kept_trial(tmp_path, replace(item.trial, inputs_sha256="other")) is None
    path.write_text(path.read_text()[:200])
    assert kept_trial(tmp_path, item.trial) is None


def test_gains_are_against_the_best_static_depth_on_the_same_arrivals(live):
    payload = live_stress_payload(live, level=0.9)
    rows = {(row["pattern"], row["policy"]): row for row in payload["policies"]}
    assert len(rows) == 3 * 4
    for (_, policy), row in rows.items():
        assert row["num_trials"] == 3
        assert row["regret"] is None
        assert row["source"] == "live"
        assert (row["gain"] == 0) == (policy == "best_static_k") or row["gain"] != 0
    for pattern in ("uniform", "bursty"):
        assert rows[pattern, "policy_file_live"]["gain"] > rows[pattern, "always_off"]["gain"]


def test_only_a_limited_cache_loads(live):
    for row in live_stress_payload(live, level=0.9)["adapter_loads"]:
        assert (row["load"] > 0) == (row["cache_mode"] == "limited")


def test_acceptance_by_adapter_is_that_which_was_served(live):
    for row in live_stress_payload(live, level=0.9)["acceptance"]:
        if row["candidate"] == "K=3" and row["num_drafts"] > 500:
            assert row["tokens_per_draft_step"] == pytest.approx(LENGTHS[row["adapter"]][3], rel=0.1)
        if row["policy"] == "policy_file_live":
            assert row["adapter"] != "bad"


def test_the_simulator_foretells_itself_exactly(live):
    found = validate_on_live(live, COST, RATES, num_lucks=1)
    assert found["is_passed"]
    assert len(found["scenarios"]) == len(TRAFFIC["live"]["scenarios"])
    for scenario in found["scenarios"]:
        assert scenario["kendall_tau_tpot"] == pytest.approx(1.0)
        for errors in scenario["policies"].values():
            assert errors == pytest.approx({"output_throughput_error": 0, "p50_tpot_error": 0})


def test_more_draws_of_luck_stay_near_and_count_no_request_twice(live):
    one, many = (validate_on_live(live, COST, RATES, num_lucks=n) for n in (1, 8))
    for first, second in zip(one["scenarios"], many["scenarios"], strict=True):
        for policy, errors in second["policies"].items():
            assert abs(errors["p50_tpot_error"]) < 0.15
            assert second["simulated"][policy]["num_requests"] == first["simulated"][policy]["num_requests"]


def test_a_server_that_is_slower_than_its_parts_fails_the_validation(tmp_path):
    write_run(tmp_path / "slow.parquet", slowness=1.25)
    found = validate_on_live(read_live(tmp_path / "slow.parquet"), COST, RATES)
    assert not found["is_passed"]
    for scenario in found["scenarios"]:
        for errors in scenario["policies"].values():
            assert errors["p50_tpot_error"] < -0.1


def test_an_adapter_without_measured_acceptance_is_named(live):
    with pytest.raises(ResultError, match="'fair'"):
        validate_on_live(live, COST, {name: rates for name, rates in RATES.items() if name != "fair"})


def _spoilt(source, path, *, column=None, value=None, payload=None):
    """Write a run again with one column or a part of its payload replaced."""
    table = pq.read_table(source)
    envelope = json.loads(table.schema.metadata[b"lora_spec"])
    if column is not None:
        place = table.schema.get_field_index(column)
        field = table.schema.field(place)
        table = table.set_column(place, field, pa.array([value] * len(table), type=field.type))
    envelope["payload"] |= payload(envelope["payload"]) if payload else {}
    pq.write_table(table.replace_schema_metadata({b"lora_spec": json.dumps(envelope)}), path)
    return path


@pytest.mark.parametrize(
    ("column", "value"),
    [
        ("first_token_s", float("nan")),
        ("first_token_s", 1e300),
        ("last_token_s", 0.0),
        ("due_s", float("inf")),
        ("due_s", -1.0),
        ("sent_s", float("nan")),
        ("num_output_tokens", -1),
        ("num_prompt_tokens", 0),
        ("adapter", "nobody"),
    ],
)
def test_requests_that_cannot_be_are_refused_with_the_file_named(run, tmp_path, column, value):
    path = _spoilt(run[0], tmp_path / "spoilt.parquet", column=column, value=value)
    with pytest.raises(ResultError, match=r"spoilt\.parquet: request .* measure again"):
        read_live(path)


def _each(**changes):
    return lambda payload: {"trials": [trial | changes for trial in payload["trials"]]}


@pytest.mark.parametrize(
    "change",
    [
        lambda payload: {"trials": []},
        lambda payload: {"trials": payload["trials"] * 2},
        lambda payload: {"slots": {}},
        lambda payload: {"policies": {}},
        lambda payload: {"engine": {}},
        lambda payload: {"engine": payload["engine"] | {"num_speculative_tokens": "3"}},
        lambda payload: {"traffic": payload["traffic"] | {"service_level": {}}},
        _each(policy="nobody's"),
    ],
)
def test_a_run_that_does_not_hold_together_is_refused_with_the_file_named(run, tmp_path, change):
    with pytest.raises(ResultError, match=r"spoilt\.parquet"):
        read_live(_spoilt(run[0], tmp_path / "spoilt.parquet", payload=change))


def test_a_policy_that_no_engine_took_is_refused_by_the_simulator(run, tmp_path):
    nothing = lambda payload: {"policies": {key: {} for key in payload["policies"]}}  # noqa: E731
    path = _spoilt(run[0], tmp_path / "spoilt.parquet", payload=nothing)
    with pytest.raises(ResultError, match=r"spoilt\.parquet: trial"):
        validate_on_live(read_live(path), COST, RATES)
