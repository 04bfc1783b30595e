"""A live run on a real server: what it measures, going on after a stop, and a server that dies."""

import json
import os
import signal
import threading
import time
from contextlib import nullcontext

import pytest
from stress_runs import ADAPTERS, campaign

from lora_spec.errors import MeasurementError
from lora_spec.stress import live_campaign
from lora_spec.stress.live_campaign import measure_live
from lora_spec.stress.live_table import read_live, write_live
from lora_spec.stress.server_counters import parse_counters

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]


@pytest.fixture(scope="module")
def state_dir(tmp_path_factory):
    return tmp_path_factory.mktemp("stress")


@pytest.fixture(scope="module")
def loads_in_all():
    """Return where the last reading of a server's loads goes."""
    return {}


@pytest.fixture(scope="module")
def done(pair, adapters, prompts, state_dir, loads_in_all):
    """Return a whole run: two policies, one scenario, two trials, on a server that logs all it does."""

    class Read(live_campaign.VllmServer):
        def __exit__(self, *error):
            loads_in_all.update(parse_counters(self.metrics_text()).num_adapter_loads)
            super().__exit__(*error)

    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("VLLM_LOGGING_LEVEL", "DEBUG")
        patch.setattr(live_campaign, "VllmServer", Read)
        return measure_live(campaign(pair, adapters, prompts, state_dir), lock=nullcontext)


def test_a_whole_run_serves_every_request_and_says_who_used_the_cores(done, state_dir):
    assert len(done) == 4
    for planned, record in done:
        assert [item.error for item in record.records] == [None] * len(planned.trial.requests)
        assert [item.due_s for item in record.records] == [item.arrival_s for item in planned.trial.requests]
        assert {item.num_output_tokens for item in record.records} == {12}
        assert 0 < record.generator_cores < record.server_cores <= os.cpu_count() + 0.1
    assert json.loads((state_dir / "run.json").read_text())["status"] == "finished"


def test_policies_of_a_round_meet_the_same_requests_and_draft_as_their_files_say(done):
    by_place = {(planned.place.policy, planned.place.seed): (planned, record) for planned, record in done}
    for seed in (0, 1):
        static, ours = by_place["best_static_k", seed], by_place["policy_file", seed]
        assert static[0].trial.requests == ours[0].trial.requests
        depth = int(static[0].policy.label.removeprefix("K="))
        assert depth > 0
        assert set(static[1].counts) == {item.adapter for item in static[0].trial.requests}
        assert "stronger" not in ours[1].counts
        for name, deepest in (("strong", 1), ("weak", 3)):
            counts = ours[1].counts[name]
            assert counts["num_draft_tokens"] <= deepest * counts["num_drafts"]


def test_adapters_that_compete_for_one_slot_are_loaded_again_and_again(done):
    for planned, record in done:
        names = [item.adapter for item in planned.trial.requests]
        assert len(set(names)) - 1 <= record.num_adapter_loads["load"] <= len(names)


def test_the_scheduler_counts_the_loads_that_the_worker_logs(done, loads_in_all, state_dir):
    in_log = (state_dir / "server-limited.log").read_text().count("Adding lora. Model id")
    assert loads_in_all == {"load": in_log - len(ADAPTERS)}  # the server's start loads all of them once


def test_a_finished_run_is_not_run_again(done, pair, adapters, prompts, state_dir, monkeypatch):
    def refuse(*args, **kwargs):
        raise AssertionError("a server was started")

    monkeypatch.setattr(live_campaign, "VllmServer", refuse)
    assert measure_live(campaign(pair, adapters, prompts, state_dir), lock=nullcontext) == done


def test_the_record_is_read_as_it_was_written(done, tmp_path):
    payload = {
        "setup": "tiny",
        "engine": {"max_num_seqs": 4, "max_num_batched_tokens": 64, "num_speculative_tokens": 3},
        "adapters": [
            {"name": name, "domain": "d", "action": "red", "lora_rank": 4, "adapter_sha256": "0"} for name in ADAPTERS
        ],
        "traffic": {
            "duration_s": 3.0,
            "warmup_s": 0.5,
            "drain_s": 30.0,
            "output_tokens": 12,
            "service_level": {"max_ttft_ms": 1000.0, "max_tpot_ms": 100.0},
        },
        "slots": {"limited": 1},
    }
    write_live(tmp_path / "live.parquet", done, payload=payload, tier="tiny", provenance={})
    read = read_live(tmp_path / "live.parquet", tier="tiny")
    assert [read.records[record.name] for _, record in done] == [record.records for _, record in done]
    assert [trial["trial"] for trial in read.payload["trials"]] == [record.name for _, record in done]


def test_a_server_that_dies_fails_the_run_keeps_what_was_finished_and_the_next_call_goes_on(
    pair, adapters, prompts, tmp_path, monkeypatch
):
    """The whole group of the server is killed during the second trial."""
    planned = campaign(pair, adapters, prompts, tmp_path, seeds=[0])
    first, second = (item.trial for item in planned.planned["limited"])
    started = []

    class Watched(live_campaign.VllmServer):
        def __enter__(self):
            started.append(super().__enter__())
            return started[-1]

    monkeypatch.setattr(live_campaign, "VllmServer", Watched)

    def kill_in_second_trial():
        while not (tmp_path / f"{second.name}.partial").exists():
            time.sleep(0.05)
        time.sleep(0.7)
        os.killpg(started[0].pid, signal.SIGKILL)

    killer = threading.Thread(target=kill_in_second_trial)
    killer.start()
    with pytest.raises(MeasurementError, match=rf"{second.name}.*(died|answer)"):
        measure_live(planned, lock=nullcontext)
    killer.join()
    run = json.loads((tmp_path / "run.json").read_text())
    assert (run["status"], run["finished"]) == ("failed", [first.name])
    failed = json.loads((tmp_path / f"{second.name}.json.failed").read_text())
    assert "died" in failed["failure"] or "answer" in failed["failure"]
    assert any(item["error"] for item in failed["records"])
    kept = (tmp_path / f"{first.name}.json").stat().st_mtime_ns
    again = measure_live(planned, lock=nullcontext)
    assert [record.failure for _, record in again] == [None, None]
    assert (tmp_path / f"{first.name}.json").stat().st_mtime_ns == kept
    assert len(started) == 2
