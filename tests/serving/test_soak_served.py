"""Three quarters of a minute of everything at once on a real server."""

import os
import signal
import threading

import pytest
from stress_runs import server_options, traffic

from lora_spec.engines.vllm_server import VllmServer
from lora_spec.errors import EngineError, MeasurementError
from lora_spec.stress.live import LiveRun
from lora_spec.stress.live_prompts import OwnTraffic
from lora_spec.stress.load_generator import Sending
from lora_spec.stress.soak import judge_soak
from lora_spec.stress.soak_run import EXTRA, SoakSettings, soak

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]
SECONDS, ROUND_S = 40.0, 4.0


def _soak(pair, adapters, prompts, folder, on_round):
    policy = folder / "policy.json"
    options = server_options(pair, adapters, max_loras=2, max_cpu_loras=3, policy=policy, is_lora_updatable=True)
    with VllmServer(options, log=folder / "server.log") as server:
        encoded = {name: [prompt.token_ids for prompt in prompts] for name in (*options.adapters, *EXTRA)}
        run = LiveRun(server, OwnTraffic(encoded), policy, folder, Sending(server.base_url, "base"))
        mix = {**traffic(), "output_tokens": 16}
        settings = SoakSettings(SECONDS, ROUND_S, 5.0, mix, max_depth=3)
        soak(run, settings, options.adapters, on_round=lambda found: on_round(found, server))


@pytest.fixture(scope="module")
def rounds(pair, adapters, prompts, tmp_path_factory):
    found = []
    _soak(pair, adapters, prompts, tmp_path_factory.mktemp("soak"), lambda item, server: found.append(item))
    return found


def test_a_soak_ends_with_no_failed_and_no_leaked_request(rounds):
    verdict = judge_soak(rounds, failure=None, max_slope_mib_per_hour=64.0)
    assert verdict["problems"] == []
    assert verdict["is_passed"]
    assert verdict["num_sent"] == verdict["num_ended"] + verdict["num_aborted"]
    assert rounds[-1].end_s >= SECONDS


def test_it_hung_up_changed_adapters_and_offered_good_and_broken_policies(rounds):
    verdict = judge_soak(rounds, failure=None, max_slope_mib_per_hour=64.0)
    assert verdict["num_aborted"] > 0
    assert verdict["num_policies_loaded"] == len(rounds)
    assert verdict["num_policies_refused"] == len(rounds) // 3
    assert verdict["num_adapter_changes"] == 2 * len(rounds) - 1
    assert min(item.rss_mib for item in rounds) > 100


def test_a_server_that_dies_ends_the_soak_with_the_rounds_that_it_lived(pair, adapters, prompts, tmp_path):
    found = []

    def kill_after_one(item, server):
        found.append(item)
        threading.Timer(ROUND_S / 2, os.killpg, (server.pid, signal.SIGKILL)).start()

    with pytest.raises((EngineError, MeasurementError)):
        _soak(pair, adapters, prompts, tmp_path, kill_after_one)
    assert len(found) == 1
