"""One vLLM engine as a model: what its scheduler does, at the times that a step-cost model gives.

As in vLLM 0.32's scheduler, running requests go first, then waiting ones by arrival while there are places
(``max_num_seqs``) and tokens (``max_num_batched_tokens``, chunked prefill); with ``max_loras`` adapters in the batch
a waiting request of another adapter is passed over. Missing adapters are loaded before the step, which waits for them.
The step that ends a prompt gives the first token. A decoding request at depth d yields one token and its accepted
drafts in each step, the last one cut at the request's length.

Events, not ticks: while no request ends and none can join, all steps are alike but for the growing context, and
are taken at once. A policy that learns is asked at every step.

Not modelled: KV-cache space (nothing is preempted), prefix caching, the HTTP server and tokenizer, scheduling overhead
beyond what measured step times hold, structured output, aborts, failures, drift of acceptance within a request, and
correlation of acceptance between steps. A decoding request whose drafts do not fit the token budget waits for the next
step, where vLLM would cut its drafts; a depth counts from the step it is chosen in, where vLLM drafts one step
earlier; within a stretch of steps the context grows evenly, and so the step time linearly.
"""

from collections import Counter
from collections.abc import Mapping

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.stress.draft_counts import DraftCounts
from lora_spec.stress.policies.base import Chooser
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.simulator.adapter_slots import AdapterSlots
from lora_spec.stress.simulator.luck import Path
from lora_spec.stress.simulator.open_request import OpenRequest
from lora_spec.stress.simulator.plan import Plan
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter
from lora_spec.stress.simulator.waiting_line import WaitingLine
from lora_spec.traffic.schedule import ScheduledRequest

GIVEN_UP = "given up: not done when the run was over"
"""As the live client says it."""


class Engine:
    """An engine that is offered requests by arrival and run up to points in time, s.

    Parameters
    ----------
    adapters
        All that may be asked for, by name; they are loaded before the start, in this order, as ``vllm serve`` does.
    count_from_s
        Requests due before it are served and not counted: the warm-up.
    """

    def __init__(
        self,
        settings: ServerSettings,
        cost: StepCost,
        adapters: Mapping[str | None, SimulatedAdapter],
        chooser: Chooser,
        *,
        count_from_s: float = 0.0,
    ) -> None:
        self._settings = settings
        self._cost = cost
        self._adapters = adapters
        self._chooser = chooser
        self._count_from_s = count_from_s
        self.slots = AdapterSlots(settings, cost, (name for name in adapters if name is not None))
        self.records: list[RequestRecord] = []
        self.counts: dict[str | None, DraftCounts] = {}
        self.busy_s = 0.0
        self.num_steps = 0
        self.num_open = 0
        self._now_s = 0.0
        self._running: list[OpenRequest] = []
        self._num_running_of: Counter[str] = Counter()
        self._num_prefilling = 0
        self._line = WaitingLine()
        self._plan: Plan | None = None
        self._key = -1

    @property
    def next_change_s(self) -> float | None:
        """Return when the steps at hand end; None for an idle engine."""
        return None if self._plan is None else self._plan.end_s

    def offer(self, scheduled: ScheduledRequest, path: Path) -> None:
        """Take a request at its arrival, which no earlier one may follow."""
        self.run_until(scheduled.arrival_s)
        self._line.append(OpenRequest(scheduled, path))
        self.num_open += 1
        if self._plan is None:
            self._now_s = max(self._now_s, scheduled.arrival_s)
            self._plan = self._make_plan()
        elif len(self._running) < self._settings.max_num_seqs:
            self._plan.shorten(scheduled.arrival_s)

    def run_until(self, time_s: float) -> None:
        """Take all steps that end by then."""
        while self._plan is not None and self._plan.end_s <= time_s:
            self._take(self._plan)
            self._plan = self._make_plan()

    def give_up(self, time_s: float) -> None:
        """End what is still open at this time, as failed; steps under way are lost."""
        self.run_until(time_s)
        if self._plan is not None and self._plan.cut(time_s):
            self._take(self._plan)
        for request in (*self._running, *self._line):
            if request.first_token_s is not None:
                request.end_segment(self.num_steps, self._counts_of(request))
            self.records.append(request.record(None if request.first_token_s is None else self._now_s, GIVEN_UP))
        self._running, self._line, self._plan, self.num_open = [], WaitingLine(), None, 0

    def _make_plan(self) -> Plan | None:
        if not self._running and not self._line:
            return None
        decoding, chunks, missing = self._schedule_running()
        load_ms = self._admit(decoding, chunks, missing)
        self._choose_depths(len(decoding) + len(chunks))
        num_steps = 1
        if not chunks and not missing and not self._chooser.is_learning:
            num_steps = min(request.end_step for request in decoding) - self.num_steps
        depths = [request.depth for request in decoding]
        context = sum(request.num_context(self.num_steps) for request in decoding)
        num_prefill = sum(num_tokens for _, num_tokens in chunks)
        first_ms = self._step_ms(depths, num_prefill, context)
        growth_ms = 0.0
        if num_steps > 1:
            grown = (num_steps - 1) * sum(request.tokens_per_step for request in decoding)
            growth_ms = (self._step_ms(depths, 0, context + grown) - first_ms) / (num_steps - 1)
        return Plan(self._now_s, num_steps, decoding, chunks, missing, load_ms / 1e3, first_ms / 1e3, growth_ms / 1e3)

    def _step_ms(self, depths: list[int], num_prefill: int, context: float) -> float:
        return self._cost.step_ms(depths, num_prefill_tokens=num_prefill, num_context_tokens=round(context))

    def _schedule_running(self) -> tuple[list[OpenRequest], list[tuple[OpenRequest, int]], list[OpenRequest]]:
        """Return who decodes, whose prompt goes on with how many tokens, and who finds no room in this step."""
        slots, budget = self._settings.draft_slots, self._settings.max_num_batched_tokens
        drafted = sum(request.depth for request in self._running)
        if not self._num_prefilling and drafted + len(self._running) * (1 + slots) <= budget:
            return list(self._running), [], []
        decoding, chunks, missing = [], [], []
        for request in self._running:
            room = budget - slots
            needed = request.num_left_prompt or 1 + request.depth
            is_first = not decoding and not chunks
            if room <= 0 or (needed > room and not request.num_left_prompt and not is_first):
                missing.append(request)
                continue
            used = min(needed, room)
            budget -= used + slots
            if request.num_left_prompt:
                chunks.append((request, used))
            else:
                decoding.append(request)
        return decoding, chunks, missing

    def _admit(
        self, decoding: list[OpenRequest], chunks: list[tuple[OpenRequest, int]], missing: list[OpenRequest]
    ) -> float:
        """Let waiting requests in, add the start of their prompts, and return what adapters take to load, ms."""
        slots = self._settings.draft_slots
        used = sum(1 + request.depth for request in decoding) + sum(num_tokens for _, num_tokens in chunks)
        room = self._settings.max_num_batched_tokens - used - slots * (len(decoding) + len(chunks) + 1)
        load_ms = 0.0
        while room > 0 and self._line and not missing and len(self._running) < self._settings.max_num_seqs:
            request = self._next_waiting()
            if request is None:
                break
            load_ms += self._ready_for(request)
            num_tokens = min(request.num_left_prompt, room)
            chunks.append((request, num_tokens))
            self._running.append(request)
            self._num_prefilling += 1
            room -= num_tokens + slots
        return load_ms

    def _next_waiting(self) -> OpenRequest | None:
        if len(self._num_running_of) < self._settings.max_loras:
            return self._line.pop_first()
        return self._line.pop_first_of((None, *self._num_running_of))

    def _ready_for(self, request: OpenRequest) -> float:
        adapter = request.scheduled.adapter
        if adapter is None:
            return 0.0
        rank = self._adapters[adapter].lora_rank
        load_ms = 0.0
        if adapter not in self._num_running_of:
            load_ms = self.slots.make_ready(adapter, rank, self._num_running_of)
        self._num_running_of[adapter] += 1
        return load_ms

    def _choose_depths(self, batch_size: int) -> None:
        key = self._chooser.begin_step(batch_size, self._now_s)
        if key == self._key and not self._chooser.is_learning:
            return
        self._key = key
        for request in self._running:
            if request.first_token_s is not None:
                depth = self._chooser.depth(request.scheduled.adapter)
                if depth != request.depth:
                    request.end_segment(self.num_steps, self._counts_of(request))
                    request.begin_segment(depth, self.num_steps)

    def _take(self, plan: Plan) -> None:
        """Let the planned steps have happened."""
        if self._chooser.is_learning:
            for request in plan.decoding:
                accepted = request.num_accepted(self.num_steps) if request.depth else 0
                self._chooser.observe(request.scheduled.adapter, request.depth, accepted)
        self.busy_s += plan.end_s - plan.start_s
        self._now_s = plan.end_s
        self.num_steps += plan.num_steps
        for request in plan.missing:
            request.miss_step()
        for request, num_tokens in plan.chunks:
            self._compute_prompt(request, num_tokens)
        for request in plan.decoding:
            if request.end_step <= self.num_steps:
                request.end_segment(self.num_steps, self._counts_of(request))
                self._finish(request)

    def _compute_prompt(self, request: OpenRequest, num_tokens: int) -> None:
        request.num_left_prompt -= num_tokens
        if request.num_left_prompt:
            return
        self._num_prefilling -= 1
        request.first_token_s, request.num_tokens = self._now_s, 1
        if request.scheduled.num_output_tokens == 1:
            self._finish(request)
        else:
            request.begin_segment(self._chooser.depth(request.scheduled.adapter), self.num_steps)

    def _finish(self, request: OpenRequest) -> None:
        self._running.remove(request)
        self.num_open -= 1
        adapter = request.scheduled.adapter
        if adapter is not None:
            self._num_running_of[adapter] -= 1
            if not self._num_running_of[adapter]:
                del self._num_running_of[adapter]
                self.slots.touch(adapter)
        self.records.append(request.record(self._now_s))

    def _counts_of(self, request: OpenRequest) -> DraftCounts | None:
        """Return where its drafts are counted; None in the warm-up."""
        if request.scheduled.arrival_s < self._count_from_s:
            return None
        return self.counts.setdefault(request.scheduled.adapter, DraftCounts())
