"""A whole run with a stand-in program: every ending is an observation, and a run goes on where it stopped."""

import json
from dataclasses import replace
from pathlib import Path

import pytest

from lora_spec.errors import EngineError, MeasurementError
from lora_spec.measurement.composability import cell_process
from lora_spec.measurement.composability.execute import execute_phase0, gather_inputs
from lora_spec.measurement.composability.observations import read_observations
from lora_spec.measurement.composability.plan import plan_phase0
from lora_spec.measurement.composability.references import judge_references

ROOT = Path(__file__).parents[3]
USUAL = "draft_model+lora-one+prefix-on+chunked-on+eager+sync+greedy+free"
PLAIN = "none+lora-one+prefix-on+chunked-on+eager+sync+greedy+free"
LOOKUP = "ngram+lora-one+prefix-on+chunked-on+eager+sync+greedy+free"
HELD = "draft_model+lora-one+prefix-on+chunked-on+eager+sync+greedy+grammar"
SAMPLED = "ngram+lora-several+prefix-on+chunked-on+eager+sync+temperature-greedy-drafts+free"


@pytest.fixture
def faults(monkeypatch):
    """Return a function that tells the stand-in what to do wrong, by method."""
    return lambda **by_method: monkeypatch.setenv("FAKE_CELL", json.dumps(by_method))


def _run(make_run, *names, is_again=False):
    lines = []
    runner, store = make_run()
    execute_phase0(runner, store, names=names, is_again=is_again, report=lines.append)
    return store, lines


def _read(store, plan):
    return read_observations(
        store.folder.with_suffix(".json"),
        known_ids={cell.cell_id for cell in plan.cells},
        vllm_version=plan.config.vllm_version,
        tier=plan.tier,
    )


def test_a_faultless_engine_works_in_every_selected_cell(make_run, plan):
    store, _ = _run(make_run)
    seen = _read(store, plan)
    assert {name: cell["status"] for name, cell in seen.cells.items()} == {
        entry.cell.cell_id: "works" for entry in plan.selected
    }
    assert all(cell["evidence"] == "measured" and cell["history"] == [] for cell in seen.cells.values())
    assert seen.cells[USUAL]["median_step_ms"] == 20.0


def test_an_engine_without_caches_serves_new_weights_always_even_where_that_is_not_expected(make_run):
    store, _ = _run(make_run)
    found = {claim: (entry["observed"], entry["status"]) for claim, entry in store.cache.items()}
    assert found == {
        "prefix_cache_is_per_adapter": (True, "works"),
        "evicted_adapter_is_reloaded": (True, "works"),
        "new_id_and_path_are_reread": (True, "works"),
        "new_id_on_same_path_is_reread": (True, "works"),
        "same_id_is_reread": (True, "wrong"),
        "same_id_with_load_inplace_is_reread": (True, "works"),
    }


@pytest.mark.parametrize(
    ("fault", "status", "words"),
    [
        ("die", "crashed", "signal 6"),
        ("half", "crashed", "exit code 3 in stage start"),
        ("silent", "crashed", "exit code 0 in stage before its first report"),
        ("quits", "crashed", "exit code 0 in stage start"),
        ("garbled", "crashed", "exit code 0 in stage before its first report"),
        ("refuse", "refused", "ValueError: this cannot be"),
        ("ignore_adapter", "wrong", "is the text of base"),
        ("stale_text", "wrong", "differ: "),
        ("impossible_counters", "wrong", "counters: impossible"),
    ],
)
def test_a_fault_of_one_cell_is_its_status_and_not_the_end_of_the_run(make_run, faults, fault, status, words):
    faults(draft_model=fault)
    store, lines = _run(make_run, USUAL, LOOKUP)
    assert store.cells[USUAL]["status"] == status
    assert words in store.cells[USUAL]["reason"]
    assert store.cells[LOOKUP]["status"] == "works"
    assert len(lines) == 3


def test_a_cell_that_hangs_is_ended_and_told(make_run, faults):
    faults(draft_model="hang")
    runner, store = make_run()
    limited = runner.plan.config.model_copy(update={"cell_timeout_s": 1.5})
    runner.plan = replace(runner.plan, config=limited)
    execute_phase0(runner, store, names=(USUAL,), report=lambda line: None)
    entry = store.cells[USUAL]
    assert entry["status"] == "timeout"
    assert entry["log_tail"] == ["fake cell draft_model in ."]


def test_places_of_the_machine_stay_out_of_what_is_written(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    data = {"a": [f"{tmp_path}/x.py line 3"], "b": ("/usr/lib/x", 1)}
    assert cell_process.without_machine(data) == {"a": ["./x.py line 3"], "b": ["/usr/lib/x", 1]}


def test_what_was_measured_is_skipped_and_kept_when_the_run_is_repeated(make_run, plan):
    first, _ = _run(make_run, USUAL)
    again, lines = _run(make_run, USUAL, LOOKUP)
    assert lines[0] == "2 cells chosen, 1 of them measured before"
    assert again.cells[USUAL] == first.cells[USUAL]
    assert set(_read(again, plan).cells) == {USUAL, LOOKUP}


def test_a_repeated_cell_keeps_time_and_status_of_the_earlier_ones(make_run, faults):
    faults(draft_model="stale_text")
    first, _ = _run(make_run, USUAL)
    faults()
    second, _ = _run(make_run, USUAL, is_again=True)
    third, _ = _run(make_run, USUAL, is_again=True)
    assert [entry["status"] for entry in third.cells[USUAL]["history"]] == ["works", "wrong"]
    assert third.cells[USUAL]["history"][1]["timestamp"] == first.cells[USUAL]["timestamp"]
    assert [entry["status"] for entry in second.cells[USUAL]["history"]] == ["wrong"]


def test_a_deleted_output_is_written_again_from_the_runs_folder(make_run, plan):
    store, _ = _run(make_run, USUAL)
    store.folder.with_suffix(".json").unlink()
    again, lines = _run(make_run, USUAL)
    assert lines == ["1 cells chosen, 1 of them measured before"]
    assert set(_read(again, plan).cells) == {USUAL}


def test_observations_merge_into_a_file_that_came_from_elsewhere(make_run, tmp_path, plan):
    store, _ = _run(make_run, USUAL)
    other = tmp_path / "other" / "observations.json"
    other.parent.mkdir()
    other.write_bytes(store.folder.with_suffix(".json").read_bytes())
    runner, there = make_run(other)
    execute_phase0(runner, there, names=(LOOKUP,), report=lambda line: None)
    assert set(_read(there, plan).cells) == {USUAL, LOOKUP}


def test_every_cell_is_on_disk_before_the_next_one_starts(make_run, plan):
    runner, store = make_run()
    on_disk = []

    def look(line):
        path = store.folder.with_suffix(".json")
        on_disk.append(len(json.loads(path.read_text())["cells"]) if path.exists() else 0)

    execute_phase0(runner, store, names=(USUAL, LOOKUP, PLAIN), report=look)
    assert on_disk == [0, 1, 2, 3]


def test_held_and_sampled_cells_are_judged_by_what_can_be_known_of_them(make_run):
    store, _ = _run(make_run, HELD, SAMPLED)
    checks = {name: {c["name"]: c["outcome"] for c in cell["checks"]} for name, cell in store.cells.items()}
    assert checks[HELD]["grammar"] == checks[HELD]["texts"] == "ok"
    assert checks[SAMPLED] == {
        **dict.fromkeys(("requests_finish", "texts", "adapter_applied", "counters"), "ok"),
        "speculated": "unknown",
    }


def test_without_sound_references_nothing_is_judged(make_run, faults):
    faults(none="die")
    with pytest.raises(EngineError, match="no reference texts"):
        _run(make_run, USUAL)


def test_a_reference_that_is_not_the_targets_greedy_text_stops_the_run():
    fine = {"base/0/free": {"gaps": [0.0, 0.0004]}}
    assert judge_references(fine, 0.001) == {"num_tokens": 2, "num_ties": 1, "max_gap": 0.0004}
    with pytest.raises(MeasurementError, match=r"json/1/free: token 1 lies 0\.3000 below"):
        judge_references({**fine, "json/1/free": {"gaps": [0.0, 0.3]}}, 0.001)


def test_unpinned_inputs_can_be_planned_and_not_run(plan):
    unpinned = replace(plan, unpinned=("target",))
    with pytest.raises(MeasurementError, match="target: no immutable revision"):
        gather_inputs(unpinned, target=None, drafter=None, adapters={})


def test_another_vllm_than_the_configs_is_refused(plan, tmp_path, monkeypatch):
    monkeypatch.setattr("lora_spec.measurement.composability.execute.installed_vllm", lambda: "0.33.0")
    with pytest.raises(EngineError, match=r"0\.33\.0 is installed, the config is for 0\.32\.0"):
        gather_inputs(plan, target=tmp_path, drafter=tmp_path, adapters={})


def test_inputs_are_told_by_every_file_that_the_engine_reads(plan, config, tmp_path, monkeypatch):
    monkeypatch.setattr("lora_spec.measurement.composability.execute.installed_vllm", lambda: config.vllm_version)
    (tmp_path / "model-00001-of-00002.safetensors").write_text("sharded")
    adapters = {name: ROOT / "reference" / "mini" / "adapters" / name for name in config.adapters.names}
    inputs = gather_inputs(plan, target=tmp_path, drafter=tmp_path, adapters=adapters)
    assert set(inputs.sha256["model:target"]) == {"model-00001-of-00002.safetensors"}
    for name in adapters:
        assert set(inputs.sha256[name]) == {"adapter_model.safetensors", "adapter_config.json"}


def test_the_plan_counts_what_it_covers(tier):
    plan = plan_phase0(tier).to_dict()
    assert plan["coverage"]["num_covered"] == plan["coverage"]["num_combinations"]
    assert sum(value for key, value in plan["matrix"].items() if key != "num_cells") == plan["matrix"]["num_cells"]
