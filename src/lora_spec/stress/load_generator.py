"""An open-loop client of an OpenAI server: every request is sent when it is due, whoever still waits.

``vllm bench serve`` deals adapters to requests in turn or at random alike, and the load generators that were looked at
(GuideLLM, AIPerf, Locust) know no adapters with seeded, unequal shares. This sends what a schedule says, over aiohttp.
"""

import asyncio
import json
import resource
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from lora_spec.stress.request_record import RequestRecord
from lora_spec.traffic.schedule import ScheduledRequest

_PREFIX = b"data:"
_DONE = b"[DONE]"


@dataclass(frozen=True)
class Sending:
    """How requests are sent.

    Parameters
    ----------
    base_model
        Name of the unadapted target at the server.
    drain_s
        Seconds after the last arrival in which open requests may still end; then they are given up as failed.
    aborted_after
        Requests by index that the client hangs up on, and after how many chunks.
    """

    base_url: str
    base_model: str
    drain_s: float = 120.0
    aborted_after: Mapping[int, int] = field(default_factory=dict)


ABORTED = "aborted by the client"
"""The ``error`` of a request that was hung up on, as was wanted."""


@dataclass(frozen=True)
class Sent:
    """What came of a run; ``generator_cores`` is the share of the machine's cores that the client itself used."""

    records: tuple[RequestRecord, ...]
    wall_s: float
    generator_cores: float


def send_all(
    requests: Sequence[ScheduledRequest],
    prompt_of: Callable[[ScheduledRequest], Sequence[int]],
    sending: Sending,
    *,
    on_record: Callable[[RequestRecord], None] | None = None,
) -> Sent:
    """Send all requests when they are due and return what came of them, in order.

    Parameters
    ----------
    prompt_of
        Gives the token ids of a request's prompt.
    on_record
        Called with every request that has ended, so that a run that is cut leaves what it had.
    """
    # Prompts are made before the clock starts: making them must not delay the sending.
    bodies = [_body(request, prompt_of(request), sending) for request in requests]
    used = _own_cpu_s()
    started = time.perf_counter()
    records = asyncio.run(_send_all(requests, bodies, sending, on_record or (lambda record: None)))
    wall_s = time.perf_counter() - started
    return Sent(tuple(records), wall_s, (_own_cpu_s() - used) / wall_s)


def _own_cpu_s() -> float:
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def _body(request: ScheduledRequest, prompt: Sequence[int], sending: Sending) -> dict[str, Any]:
    return {
        "model": request.adapter or sending.base_model,
        "prompt": list(prompt),
        "max_tokens": request.num_output_tokens,
        "temperature": 0.0,
        "ignore_eos": True,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


async def _send_all(
    requests: Sequence[ScheduledRequest],
    bodies: Sequence[Mapping[str, Any]],
    sending: Sending,
    on_record: Callable[[RequestRecord], None],
) -> list[RequestRecord]:
    import aiohttp  # in the serving environment only

    timeout = aiohttp.ClientTimeout(total=None, sock_connect=10.0)
    async with aiohttp.ClientSession(timeout=timeout, connector=aiohttp.TCPConnector(limit=0)) as session:
        client = _Client(session, sending, time.perf_counter(), on_record)
        tasks = []
        for request, body in zip(requests, bodies, strict=True):
            await asyncio.sleep(max(0.0, client.start_s + request.arrival_s - time.perf_counter()))
            tasks.append(asyncio.create_task(client.send(request, body)))
        _, late = await asyncio.wait(tasks, timeout=sending.drain_s) if tasks else (set(), set())
        for task in late:
            task.cancel()
        return list(await asyncio.gather(*tasks))


class _Client:
    """Sends requests and times their chunks; ``start_s`` is the run's start on ``time.perf_counter``."""

    def __init__(
        self, session: Any, sending: Sending, start_s: float, on_record: Callable[[RequestRecord], None]
    ) -> None:
        self._session = session
        self._url = f"{sending.base_url}/v1/completions"
        self._aborted_after = sending.aborted_after
        self.start_s = start_s
        self._on_record = on_record

    def _now_s(self) -> float:
        return time.perf_counter() - self.start_s

    async def send(self, request: ScheduledRequest, body: Mapping[str, Any]) -> RequestRecord:
        """Return what came of one request; a failure is an entry of the record, never an exception."""
        stream, sent_s = _Stream(self._now_s), self._now_s()
        try:
            async with self._session.post(self._url, json=body) as answer:
                error = await self._read(answer, stream, self._aborted_after.get(request.index))
        except asyncio.CancelledError:
            error = "given up: not done when the run was over"
        except Exception as err:  # whatever goes wrong with one request is that request's outcome
            error = f"{type(err).__name__}: {err}"
        record = RequestRecord(
            index=request.index,
            adapter=request.adapter,
            num_prompt_tokens=request.num_prompt_tokens,
            num_output_tokens=stream.num_tokens,
            due_s=request.arrival_s,
            sent_s=sent_s,
            first_token_s=stream.first_s,
            last_token_s=stream.last_s,
            error=error,
        )
        self._on_record(record)
        return record

    async def _read(self, answer: Any, stream: "_Stream", abort_after: int | None) -> str | None:
        """Read an answer to its end, or until it is to be hung up on; return what was wrong with it."""
        if answer.status != 200:
            return f"status {answer.status}: {(await answer.text())[:200]}"
        async for line in answer.content:
            stream.read(line)
            if abort_after is not None and stream.num_chunks >= abort_after:
                answer.close()
                return ABORTED
        return None if stream.is_done else "the stream ended before its end"


class _Stream:
    """Reads server-sent events: when tokens came, and how many the server says there were."""

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s = now_s
        self.first_s: float | None = None
        self.last_s: float | None = None
        self.num_tokens = 0
        self.num_chunks = 0
        self.is_done = False

    def read(self, line: bytes) -> None:
        """Take in one line."""
        if not line.startswith(_PREFIX):
            return
        data = line[len(_PREFIX) :].strip()
        if data == _DONE:
            self.is_done = True
            return
        event: dict[str, Any] = {}
        with suppress(ValueError):
            event = json.loads(data)
        if event.get("choices"):
            self.num_chunks += 1
            self.last_s = self._now_s()
            self.first_s = self.first_s or self.last_s
        if usage := event.get("usage"):
            self.num_tokens = usage["completion_tokens"]
