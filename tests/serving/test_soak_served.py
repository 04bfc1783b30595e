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
SECONDS, ROUND_S, SETTLE_S = 40.0, 4.0, 6.0


class _Found:
    """Keeps what a soak tells."""

    def __init__(self, after_round=lambda: None):
        self.settling, self.rounds, self.pid, self._after_round = None, [], None, after_round

    def add_settling(self, found):
        self.settling = found

    def add_round(self, found):
        self.rounds.append(found)
        self._after_round()


def _soak(pair, adapters, prompts, folder, found):
    policy = folder / "policy.json"
    options = server_options(pair, adapters, max_loras=2, max_cpu_loras=3, policy=policy, is_lora_updatable=True)
    with VllmServer(options, log=folder / "server.log") as server:
        encoded = {name: [prompt.token_ids for prompt in prompts] for name in (*options.adapters, *EXTRA)}
        run = LiveRun(server, OwnTraffic(encoded), policy, folder, Sending(server.base_url, "base"))
        mix = {**traffic(), "output_tokens": 16}
        length = options.max_model_len
        settings = SoakSettings(SECONDS, ROUND_S, 5.0, mix, max_depth=3, max_model_len=length, settle_s=SETTLE_S)
        found.pid = server.pid
        soak(run, settings, options.adapters, found)


@pytest.fixture(scope="module")
def found(pair, adapters, prompts, tmp_path_factory):
    found = _Found()
    _soak(pair, adapters, prompts, tmp_path_factory.mktemp("soak"), found)
    return found


@pytest.fixture(scope="module")
def rounds(found):
    return found.rounds


@pytest.fixture(scope="module")
def verdict(found):
    return judge_soak(found.rounds, settling=found.settling, failure=None, max_slope_mib_per_hour=64.0)


def test_a_soak_ends_with_no_failed_and_no_leaked_request(rounds, verdict):
    assert verdict["problems"] == []
    assert verdict["is_passed"]
    assert verdict["num_sent"] == verdict["num_ended"] + verdict["num_aborted"]
    assert rounds[-1].end_s >= SECONDS


def test_it_hung_up_changed_adapters_and_offered_good_and_broken_policies(rounds, verdict):
    assert verdict["num_aborted"] > 0
    assert verdict["num_policies_loaded"] == len(rounds)
    assert verdict["num_policies_refused"] == len(rounds) // 3
    assert verdict["num_adapter_changes"] == 2 * len(rounds) - 1


def test_it_settles_first_and_tells_memory_by_process(found):
    assert found.settling.wall_s >= SETTLE_S
    assert found.settling.num_requests > 1
    assert found.settling.problems == ()
    for memory in (found.settling.rss_before_mib, *(item.rss_mib for item in found.rounds)):
        assert "VLLM::EngineCore" in memory
        assert min(memory.values()) > 10


def test_a_server_that_dies_ends_the_soak_with_the_rounds_that_it_lived(pair, adapters, prompts, tmp_path):
    def kill():
        threading.Timer(ROUND_S / 2, os.killpg, (found.pid, signal.SIGKILL)).start()

    found = _Found(after_round=kill)
    with pytest.raises((EngineError, MeasurementError)):
        _soak(pair, adapters, prompts, tmp_path, found)
    assert len(found.rounds) == 1
