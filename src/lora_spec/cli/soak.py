"""What ``scripts/soak.py`` does: a server of a tier's pair, the rounds of a soak, and its result."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from lora_spec.cli.output import tell
from lora_spec.config import Tier
from lora_spec.engines.chat_template import encode_chat
from lora_spec.engines.server_options import SERVED_MODEL, ServerOptions
from lora_spec.engines.steady_heap import steady_heap
from lora_spec.engines.vllm_server import VllmServer
from lora_spec.errors import ConfigError, EngineError, MeasurementError
from lora_spec.measurement.campaign import adapter_ref
from lora_spec.measurement.lock import machine_lock
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_bytes_atomically, write_result
from lora_spec.stress.live import LiveRun
from lora_spec.stress.live_prompts import OwnTraffic, own_prompts
from lora_spec.stress.load_generator import Sending
from lora_spec.stress.settling import Settling
from lora_spec.stress.soak import Round, judge_soak
from lora_spec.stress.soak_run import EXTRA, Listener, SoakSettings, first_policy, soak
from lora_spec.training.frozen_prompts import FrozenPrompts, freeze_prompts
from lora_spec.training.model_tokenizer import load_tokenizer

_DRAIN_S = 60.0


@dataclass(frozen=True)
class SoakFolders:
    """Where models and adapters lie; adapters by their name in the pool."""

    target: Path
    drafter: Path
    adapters: Mapping[str, Path]


def soak_tier(
    tier: Tier,
    folders: SoakFolders,
    *,
    duration_s: float,
    round_s: float,
    settle_s: float,
    max_slope_mib_per_hour: float,
    output: Path,
) -> dict[str, Any]:
    """Soak a server, write the result after every round, and return its verdict.

    A server that dies ends the soak: the rounds that it lived are kept and the verdict says so. What was there at
    ``output`` is replaced.

    Raises
    ------
    ConfigError
        An adapter is not in the pool, or fewer than two were given.
    """
    if len(folders.adapters) < 2:
        raise ConfigError("a soak needs two adapters at least; pass --adapters NAME=FOLDER NAME=FOLDER")
    if strange := sorted(set(folders.adapters) - set(tier.adapter_pool.names)):
        raise ConfigError(f"{tier.path_of('adapter_pool')}: no adapter {strange[0]!r}; give rows of the pool")
    for name in folders.adapters:
        adapter_ref(name, folders.adapters)
    heap = steady_heap()
    if "LD_PRELOAD" not in heap:
        tell("no tcmalloc here: memory creeps on glibc's heap without any leak; apt install libtcmalloc-minimal4")
    settings = _settings(tier, duration_s=duration_s, round_s=round_s, settle_s=settle_s)
    config = {**vars(settings), "adapters": sorted(folders.adapters), "heap": heap}
    kept = _Kept(tier.name, output, max_slope_mib_per_hour, collect_provenance(config=config, seed=settings.seed))
    try:
        with machine_lock(), TemporaryDirectory(prefix="lora-spec-soak-") as work:
            log = output.with_suffix(".server.log")
            _serve_and_soak(tier, folders, settings, kept, heap=heap, work=Path(work), log=log)
    except (EngineError, MeasurementError) as err:
        return kept.write(str(err), is_over=True)
    return kept.write(None, is_over=True)


class _Kept:
    """What was found so far, in a file that is whole after each part of it."""

    def __init__(self, tier: str, output: Path, max_slope_mib_per_hour: float, provenance: dict[str, Any]) -> None:
        self._tier = tier
        self._output = output
        self._max_slope_mib_per_hour = max_slope_mib_per_hour
        self._provenance = provenance
        self._settling: Settling | None = None
        self._rounds: list[Round] = []

    def add_settling(self, found: Settling) -> None:
        """Keep the settling and say what it came to."""
        self._settling = found
        self.write(None, is_over=False)
        told = f"settled: {found.num_requests} requests in {found.wall_s:.0f} s, {_mib(found.rss_before_mib)}"
        tell(f"{told} to {_mib(found.rss_after_mib)} MiB" + "".join(f"; {problem}" for problem in found.problems))

    def add_round(self, found: Round) -> None:
        """Keep a round and say what it came to."""
        self._rounds.append(found)
        self.write(None, is_over=False)
        tell(_line(found))

    def write(self, failure: str | None, *, is_over: bool) -> dict[str, Any]:
        """Write all rounds with their verdict, and return that."""
        verdict = judge_soak(
            self._rounds,
            settling=self._settling,
            failure=failure,
            max_slope_mib_per_hour=self._max_slope_mib_per_hour,
        )
        payload = {
            "is_over": is_over,
            "verdict": verdict,
            "settling": self._settling.to_dict() if self._settling else None,
            "rounds": [item.to_dict() for item in self._rounds],
        }
        write_result(
            self._output,
            kind="soak",
            evidence="measured",
            tier=self._tier,
            provenance=self._provenance,
            payload=payload,
        )
        return verdict


def _mib(rss_mib: Mapping[str, float]) -> str:
    return f"{sum(rss_mib.values()):.0f}"


def _settings(tier: Tier, *, duration_s: float, round_s: float, settle_s: float) -> SoakSettings:
    traffic = tier.traffic.to_dict()
    return SoakSettings(
        duration_s=duration_s,
        round_s=round_s,
        request_rate_req_s=traffic["live"]["scenarios"][0]["request_rate_req_s"],
        traffic={
            "patterns": traffic["patterns"],
            "prompt_lengths": traffic["prompt_lengths"],
            "output_tokens": traffic["live"]["output_tokens"],
        },
        max_depth=tier.gate.standing_num_speculative_tokens,
        max_model_len=tier.models.engine.max_model_len,
        settle_s=settle_s,
    )


def _serve_and_soak(
    tier: Tier,
    folders: SoakFolders,
    settings: SoakSettings,
    listener: Listener,
    *,
    heap: Mapping[str, str],
    work: Path,
    log: Path,
) -> None:
    engine, policy = tier.models.engine, work / "policy.json"
    write_bytes_atomically(policy, first_policy(sorted(folders.adapters), settings))
    # Slots for half of what is in traffic: adapters come and go in the engine too.
    num_slots = max(2, (len(folders.adapters) + len(EXTRA)) // 2)
    options = ServerOptions(
        target=folders.target,
        drafter=folders.drafter,
        num_speculative_tokens=settings.max_depth,
        adapters=dict(folders.adapters),
        dtype=engine.dtype,
        max_model_len=engine.max_model_len,
        max_num_seqs=engine.max_num_seqs,
        max_loras=num_slots,
        max_cpu_loras=num_slots + 1,
        max_lora_rank=engine.max_lora_rank,
        policy=policy,
        is_eager=engine.enforce_eager,
        kv_cache_gib=engine.kv_cache_gib or 1,
        is_lora_updatable=True,
        environment=heap,
    )
    prompts = _prompts(tier, folders)
    with VllmServer(options, log=log, start_timeout_s=engine.start_timeout_s) as server:
        run = LiveRun(server, prompts, policy, work, Sending(server.base_url, SERVED_MODEL, _DRAIN_S))
        soak(run, settings, folders.adapters, listener)


def _prompts(tier: Tier, folders: SoakFolders) -> OwnTraffic:
    frozen = [FrozenPrompts.from_dict(item) for item in freeze_prompts(tier.prompts.to_dict()["sets"])]
    domains = {name: tier.adapter_pool.find(name).domain for name in folders.adapters}
    domains |= dict.fromkeys(EXTRA, next(iter(domains.values())))
    tokenizer = load_tokenizer(folders.target)
    return OwnTraffic({name: encode_chat(tokenizer, texts) for name, texts in own_prompts(frozen, domains).items()})


def _line(found: Round) -> str:
    told = f"round {found.index} ({found.pattern}, {found.end_s:.0f} s): {found.num_ended} of {found.num_sent} ended"
    told += f", {found.num_aborted} hung up, {found.num_failed} failed, {found.num_left} left"
    return told + f", {_mib(found.rss_mib)} MiB" + "".join(f"; {problem}" for problem in found.problems)
