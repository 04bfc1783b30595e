"""What a settling sends; that it brings a real server to its working set is seen in tests/serving."""

from itertools import islice

from lora_spec.stress.settling import NUM_SINGLE, settling_batches

ADAPTERS = ["a", "b", "c"]


def _batches(count, *, max_model_len=512, max_batch=8, seed=0):
    return list(islice(settling_batches(ADAPTERS, max_model_len=max_model_len, max_batch=max_batch, seed=seed), count))


def test_short_prompts_of_every_length_come_alone_first():
    alone = _batches(NUM_SINGLE)
    assert [[request.num_prompt_tokens for request in batch] for batch in alone] == [[n + 1] for n in range(NUM_SINGLE)]


def test_then_batches_of_all_sizes_and_lengths_ask_for_every_adapter():
    batches = _batches(NUM_SINGLE + 400)[NUM_SINGLE:]
    assert {len(batch) for batch in batches} == set(range(1, 9))
    requests = [request for batch in batches for request in batch]
    assert {request.adapter for request in requests} == set(ADAPTERS)
    lengths = [request.num_prompt_tokens for request in requests]
    assert 0.25 < lengths.count(max(lengths)) / len(lengths) < 0.45
    assert max(lengths) > 470
    assert len(set(lengths)) > 400


def test_no_request_is_longer_than_the_model_takes():
    for batch in _batches(300, max_model_len=64):
        for request in batch:
            assert request.num_prompt_tokens >= 1
            assert request.num_output_tokens >= 1
            assert request.num_prompt_tokens + request.num_output_tokens <= 64


def test_one_seed_gives_one_settling():
    assert _batches(200) == _batches(200)
    assert _batches(200) != _batches(200, seed=1)
