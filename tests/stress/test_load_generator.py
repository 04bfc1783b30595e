"""The client against a server with faults that vLLM cannot be made to have on demand; with vLLM: tests/serving."""

import asyncio
import json
import threading

import pytest

from lora_spec.stress.load_generator import ABORTED, Sending, send_all
from lora_spec.traffic.schedule import ScheduledRequest

pytestmark = [
    pytest.mark.serving,
    pytest.mark.filterwarnings("default"),
    pytest.mark.allow_hosts(["127.0.0.1"]),
]
NUM_TOKENS, FIRST_S, TOKEN_S = 5, 0.2, 0.1


async def _stream(request, body):
    from aiohttp import web

    answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
    await answer.prepare(request)
    for index in range(NUM_TOKENS):
        await asyncio.sleep(FIRST_S if index == 0 else TOKEN_S)
        if body["model"] == "dies" and index == 2:
            request.transport.abort()
            return answer
        await answer.write(b"data: " + json.dumps({"choices": [{"text": "w"}]}).encode() + b"\n\n")
    if body["model"] != "cut":
        usage = {"choices": [], "usage": {"completion_tokens": NUM_TOKENS}}
        await answer.write(b"data: " + json.dumps(usage).encode() + b"\n\ndata: [DONE]\n\n")
    return answer


async def _complete(request):
    from aiohttp import web

    body = await request.json()
    if body["model"] == "refused":
        return web.Response(status=404, text="no such model")
    if body["model"] == "silent":
        await asyncio.sleep(60)
    return await _stream(request, body)


@pytest.fixture(scope="module")
def url():
    """Return the address of a server that answers by the name of the model it is asked for."""
    from aiohttp import web

    loop, ready, found = asyncio.new_event_loop(), threading.Event(), {}

    async def start():
        app = web.Application()
        app.router.add_post("/v1/completions", _complete)
        runner = web.AppRunner(app, shutdown_timeout=0.1)
        await runner.setup()
        site = web.TCPSite(runner, "127.0.0.1", 0)
        await site.start()
        found["url"] = f"http://127.0.0.1:{site._server.sockets[0].getsockname()[1]}"
        found["runner"] = runner
        ready.set()

    loop.create_task(start())
    thread = threading.Thread(target=loop.run_forever)
    thread.start()
    ready.wait(10)
    yield found["url"]
    asyncio.run_coroutine_threadsafe(found["runner"].cleanup(), loop).result(10)
    loop.call_soon_threadsafe(loop.stop)
    thread.join(10)
    loop.close()


def _requests(*adapters, gap_s=0.0):
    return [ScheduledRequest(i, gap_s * i, name, 4, NUM_TOKENS, 0) for i, name in enumerate(adapters)]


def _send(url, requests, **options):
    return send_all(requests, lambda request: [1, 2, 3], Sending(url, "base", **options))


def test_times_are_those_of_the_chunks(url):
    (record,) = _send(url, _requests("a")).records
    assert record.error is None
    assert record.num_output_tokens == NUM_TOKENS
    assert 1e3 * FIRST_S <= record.ttft_ms < 1e3 * (FIRST_S + 0.5)
    assert 1e3 * TOKEN_S * 0.9 <= record.tpot_ms < 1e3 * (TOKEN_S + 0.1)
    assert record.e2el_ms == pytest.approx(record.ttft_ms + (NUM_TOKENS - 1) * record.tpot_ms)


def test_the_loop_is_open(url):
    sent = _send(url, _requests(*["a"] * 30, gap_s=0.02))
    # Each takes 0.6 s to answer; a closed loop would need 18 s.
    assert sent.wall_s < 5
    assert all(record.sent_s - record.due_s < 0.25 for record in sent.records)


@pytest.mark.parametrize(
    ("model", "why"), [("refused", "404"), ("dies", "Error"), ("cut", "before its end"), ("silent", "given up")]
)
def test_what_fails_is_that_requests_own_and_is_told(url, model, why):
    sent = _send(url, _requests("a", model, "a"), drain_s=2.0)
    assert [record.error is None for record in sent.records] == [True, False, True]
    assert why in sent.records[1].error
    assert not sent.records[1].is_good(max_ttft_ms=1e9, max_tpot_ms=1e9)


def test_a_server_that_is_not_there_fails_every_request_and_hangs_none():
    sent = _send("http://127.0.0.1:9", _requests("a", "b"))
    assert all(record.error for record in sent.records)
    assert sent.wall_s < 10


def test_the_client_hangs_up_where_it_is_told_to(url):
    sent = _send(url, _requests("a", "a"), aborted_after={1: 2})
    assert [record.error for record in sent.records] == [None, ABORTED]
    assert sent.wall_s < 3


def test_every_request_is_told_as_it_ends(url):
    ended = []
    send_all(_requests("refused", "a"), lambda request: [1], Sending(url, "base"), on_record=ended.append)
    assert sorted(record.index for record in ended) == [0, 1]


def test_the_base_is_asked_for_by_its_own_name(url):
    (record,) = _send(url, _requests(None)).records
    assert record.error is None
    assert record.adapter is None


def test_no_requests_are_no_run(url):
    assert _send(url, []).records == ()
