"""vLLM in this process: exact counters per request, depth set at run time, engine steps timed one by one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

from lora_spec.engines.base import (
    AdapterRef,
    Completion,
    CounterReading,
    DecodeTiming,
    Depths,
    Engine,
    GenerationRequest,
    PrefillTiming,
)
from lora_spec.engines.chat_template import encode_chat
from lora_spec.engines.vllm_environment import import_vllm, usable_cores
from lora_spec.engines.vllm_requests import completion_of, endless
from lora_spec.engines.vllm_steps import StepTimer, skip_drafter_at_depth_zero
from lora_spec.errors import EngineError
from lora_spec.vllm_words import depth_scheduler, draft_model_config

_COUNTER_PREFIX = "vllm:spec_decode_"


class VllmOfflineEngine(Engine):
    """A ``vllm.LLM`` with a draft model, LoRA and a scheduler whose depth can be changed between requests.

    Parameters
    ----------
    target, drafter
        Model folders in Hugging Face format; without a drafter the engine cannot speculate.
    num_speculative_tokens
        The largest depth that will ever be set.
    max_loras, max_lora_rank
        Adapters that can share a batch and their largest rank; ``max_loras=0`` starts without LoRA.
    max_cpu_loras
        Adapters kept in memory, None for as many as share a batch.
    is_drafter_run_at_depth_zero
        vLLM runs one pass of the drafter per step even at depth 0, to keep its cache in step. False leaves that pass
        out, so that depth 0 costs what an engine without drafter costs; requests that ran at depth 0 must then not
        be deepened before they end.
    kv_cache_gib
        Memory of the key-value cache in GiB (CPU only).
    """

    def __init__(
        self,
        *,
        target: str,
        drafter: str | None = None,
        num_speculative_tokens: int = 0,
        dtype: str = "bfloat16",
        max_model_len: int = 512,
        max_num_seqs: int = 16,
        max_loras: int = 0,
        max_lora_rank: int = 16,
        max_cpu_loras: int | None = None,
        is_drafter_run_at_depth_zero: bool = False,
        is_eager: bool = True,
        kv_cache_gib: int = 1,
        seed: int = 0,
    ) -> None:
        if (drafter is None) != (num_speculative_tokens == 0):
            raise EngineError("a drafter and num_speculative_tokens >= 1 go together: give both or neither")
        self._vllm = import_vllm(kv_cache_gib=kv_cache_gib)
        self._max_depth = num_speculative_tokens
        self._max_model_len = max_model_len
        self._max_num_seqs = max_num_seqs
        self._options: dict[str, Any] = {
            "model": target,
            "dtype": dtype,
            "max_model_len": max_model_len,
            "max_num_seqs": max_num_seqs,
            # Room for a full batch of verify steps beside a prefill: a tighter budget would cut drafts short.
            "max_num_batched_tokens": max(2048, 2 * max_num_seqs * (2 * num_speculative_tokens + 2) + max_model_len),
            "enforce_eager": is_eager,
            # Shared prefixes would carry the drafter's cache from requests that did not run it.
            "enable_prefix_caching": False,
            "disable_log_stats": False,
            "seed": seed,
        }
        if drafter is not None:
            self._options |= self._speculation_options(drafter)
        if max_loras:
            self._options |= {"enable_lora": True, "max_loras": max_loras, "max_lora_rank": max_lora_rank}
            self._options |= {} if max_cpu_loras is None else {"max_cpu_loras": max_cpu_loras}
        self._lora_ids: dict[AdapterRef, int] = {}
        self._llm: Any = self._start()
        if drafter is not None and not is_drafter_run_at_depth_zero:
            skip_drafter_at_depth_zero(self._runner().drafter)

    def _speculation_options(self, drafter: str) -> dict[str, Any]:
        from vllm.platforms import current_platform

        return {
            "speculative_config": draft_model_config(drafter, self._max_depth),
            # vLLM schedules synchronously on the CPU and one step ahead elsewhere.
            "scheduler_cls": depth_scheduler(is_async=not current_platform.is_cpu()),
            "per_request_spec_decode_metrics": "detailed",
        }

    def _start(self) -> Any:
        try:
            return self._vllm.LLM(**self._options)
        except (ValueError, RuntimeError, OSError) as err:
            raise EngineError(f"vLLM did not start on {self._options['model']}: {err}") from err

    def _core(self) -> Any:
        if self._llm is None:
            raise EngineError("the engine is closed; open another")
        return self._llm.llm_engine.engine_core.engine_core

    def _runner(self) -> Any:
        return self._core().model_executor.driver_worker.worker.model_runner

    @property
    def max_depth(self) -> int:
        """Return the largest depth this engine was started for."""
        return self._max_depth

    def describe(self) -> dict[str, Any]:
        """Return options, version, cores and scheduling mode."""
        return {
            "engine": "vllm_offline",
            "vllm": self._vllm.__version__,
            "is_async_scheduling": bool(self._core().async_scheduling),
            "cores": usable_cores(),
            "sampler": "greedy unless a request says otherwise; drafts by argmax",
            **self._options,
        }

    def encode_chat(self, messages: Sequence[str]) -> list[tuple[int, ...]]:
        """Return each message under the tokenizer's chat template, with the generation prompt."""
        return encode_chat(self._llm.get_tokenizer(), messages)

    def set_depth(self, default_depth: int | None, *, depth_by_adapter: Mapping[str, int] | None = None) -> None:
        """Set the depth through the scheduler."""
        if not self._max_depth:
            if default_depth or any((depth_by_adapter or {}).values()):
                raise EngineError("this engine has no drafter; start it with drafter and num_speculative_tokens")
            return
        try:
            self._core().scheduler.set_speculation_depth(default_depth, depth_by_adapter)
        except ValueError as err:
            raise EngineError(str(err)) from err

    def generate(self, requests: Sequence[GenerationRequest]) -> list[Completion]:
        """Run all requests to their end."""
        for request in requests:
            self._check_length(request)
        outputs = self._run(
            [{"prompt_token_ids": list(request.prompt_token_ids)} for request in requests],
            [self._sampling(request) for request in requests],
            lora_request=[self._lora_request(request.adapter) for request in requests],
        )
        return [completion_of(request, output) for request, output in zip(requests, outputs, strict=True)]

    def _run(self, *arguments: Any, **options: Any) -> Any:
        self._core()
        try:
            return self._llm.generate(*arguments, use_tqdm=False, **options)
        except (RuntimeError, ValueError, OSError, AssertionError) as err:
            # Requests left inside a failed engine would be counted with the next ones.
            self.close()
            raise EngineError(f"vLLM failed while generating ({err}); the engine is closed, open another") from err

    def _check_length(self, request: GenerationRequest) -> None:
        # A whole batch loses its drafts where one request comes within a draft of the model's length.
        needed = len(request.prompt_token_ids) + request.max_tokens + 2 * self._max_depth
        if needed > self._max_model_len:
            raise EngineError(
                f"request {request.request_id}: {len(request.prompt_token_ids)} prompt tokens, {request.max_tokens} "
                f"new ones and two drafts of {self._max_depth} exceed max_model_len {self._max_model_len}; raise it"
            )

    def _sampling(self, request: GenerationRequest) -> Any:
        return self._vllm.SamplingParams(
            temperature=request.temperature,
            max_tokens=request.max_tokens,
            ignore_eos=request.ignore_eos,
            detokenize=False,
        )

    def _lora_request(self, adapter: AdapterRef | None) -> Any:
        if adapter is None:
            return None
        if "max_loras" not in self._options:
            raise EngineError(f"adapter {adapter.name}: this engine was started without LoRA; give max_loras")
        if adapter.lora_rank > self._options["max_lora_rank"]:
            raise EngineError(
                f"adapter {adapter.name} has rank {adapter.lora_rank}, beyond max_lora_rank "
                f"{self._options['max_lora_rank']}; start the engine with more"
            )
        from vllm.lora.request import LoRARequest

        return LoRARequest(adapter.name, self._lora_ids.setdefault(adapter, len(self._lora_ids) + 1), adapter.path)

    def reload_weights(self, weights: Iterable[tuple[str, Any]]) -> None:
        """Load weights in place, layer by layer, as vLLM does after a training step; takes a second or two."""
        if self._core().scheduler.has_unfinished_requests():
            raise EngineError("requests still run: weights can be changed between calls of generate only")
        try:
            self._runner().reload_weights(weights_iterator=iter(weights))
        except (RuntimeError, ValueError, KeyError, AssertionError) as err:
            self.close()
            raise EngineError(f"vLLM could not load the weights ({err}); the engine is closed, open another") from err

    def read_counters(self) -> CounterReading:
        """Return the speculative-decoding counters of ``LLM.get_metrics``."""
        found = {metric.name.removeprefix(_COUNTER_PREFIX): metric for metric in self._llm.get_metrics()}
        if not self._max_depth:
            return CounterReading(0, 0, 0, ())
        return CounterReading(
            found["num_drafts"].value,
            found["num_draft_tokens"].value,
            found["num_accepted_tokens"].value,
            tuple(found["num_accepted_tokens_per_pos"].values),
        )

    def time_decode_steps(
        self, requests: Sequence[GenerationRequest], *, depths: Sequence[Depths], num_steps: int, num_warmup_steps: int
    ) -> list[DecodeTiming]:
        """Time engine steps in which every request decodes.

        ``num_context_tokens`` is the mean context (prompt and output) over the batch in the middle of the window.
        """
        with self._running(requests, num_steps=len(depths) * (num_steps + max(1, num_warmup_steps)) + 3) as timer:
            timer.ramp_up()
            timings = []
            for depth in depths:
                self.set_depths(depth)
                timings.append(timer.time(num_steps=num_steps, num_warmup_steps=num_warmup_steps))
            return timings

    def time_prefill_steps(
        self, running: Sequence[GenerationRequest], arrivals: Sequence[GenerationRequest], *, depth: int
    ) -> list[PrefillTiming]:
        """Time one step per arriving prompt."""
        if self._core().async_scheduling:
            raise EngineError("under async scheduling a step's time is not its own; time prompts without it")
        self.set_depth(depth)
        with self._running(running, num_steps=3 * len(arrivals) + 3) as timer:
            if running:
                timer.ramp_up()
            return [
                timer.time_arrival(lambda one=one: self._add(one, 1), len(one.prompt_token_ids)) for one in arrivals
            ]

    @contextmanager
    def _running(self, requests: Sequence[GenerationRequest], *, num_steps: int) -> Iterator[StepTimer]:
        """Send requests that run for at least so many steps, and abort them on leaving."""
        if len(requests) > self._max_num_seqs:
            raise EngineError(f"{len(requests)} requests cannot decode together: max_num_seqs is {self._max_num_seqs}")
        longest = (self._max_depth + 1) * num_steps
        for request in requests:
            self._check_length(endless(request, longest))
        ids = [self._add(request, longest) for request in requests]
        try:
            yield StepTimer(self._llm.llm_engine, ids)
        finally:
            self._llm.llm_engine.abort_request(ids)
            while self._core().scheduler.has_requests():
                self._llm.llm_engine.step()

    def _add(self, request: GenerationRequest, max_tokens: int) -> str:
        sent = endless(request, max_tokens)
        name = f"timing-{sent.request_id}"
        self._llm.llm_engine.add_request(
            name,
            {"prompt_token_ids": list(sent.prompt_token_ids)},
            self._sampling(sent),
            lora_request=self._lora_request(sent.adapter),
        )
        return name

    def close(self) -> None:
        """Shut the engine down and free its memory."""
        if self._llm is None:
            return
        self._llm.llm_engine.engine_core.shutdown()
        self._llm = None
        from vllm.distributed import cleanup_dist_env_and_memory

        cleanup_dist_env_and_memory()
