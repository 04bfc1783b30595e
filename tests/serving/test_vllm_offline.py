"""Real vLLM on a tiny random pair: counters, replay, depth and adapters mean what the library says they mean."""

import pytest

from lora_spec.engines import AdapterRef, GenerationRequest, open_replayer
from lora_spec.errors import EngineError, MeasurementError
from lora_spec.measurement import measure_acceptance, measure_step_times, record_trajectories, replay_arm

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]
# Short enough that some outputs meet the cap and some the end token.
MAX_TOKENS = 20


def _requests(prompts, adapter=None, **options):
    return [GenerationRequest(p.prompt_id, p.token_ids, MAX_TOKENS, adapter, **options) for p in prompts]


def _texts(completions):
    return [completion.output_token_ids for completion in completions]


def _greedy_by_transformers(model, prompt, num_tokens):
    """Return the argmax continuation without any cache."""
    import torch

    ids = list(prompt)
    with torch.inference_mode():
        for _ in range(num_tokens):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(prompt) :])


def test_speculative_text_is_the_targets_greedy_text(engine, prompts, pair):
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(pair[0]).eval()
    for prompt, completion in zip(prompts, engine.generate(_requests(prompts)), strict=True):
        text = completion.output_token_ids
        assert text == _greedy_by_transformers(model, prompt.token_ids, len(text))


def test_served_adapters_give_the_merged_models_text(engine, prompts, pair, adapters):
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    mixed = [GenerationRequest(f"{p.prompt_id}-{name}", p.token_ids, 20, adapters[name])
             for p in prompts[:4] for name in ("weak", "strong")]  # fmt: skip
    completions = {c.request_id: c.output_token_ids for c in engine.generate(mixed)}
    for name in ("weak", "strong"):
        base = LlamaForCausalLM.from_pretrained(pair[0])
        merged = PeftModel.from_pretrained(base, adapters[name].path).merge_and_unload().eval()
        for prompt in prompts[:4]:
            text = completions[f"{prompt.prompt_id}-{name}"]
            assert text == _greedy_by_transformers(merged, prompt.token_ids, len(text))


def test_depth_changes_the_drafts_and_never_the_text(engine, prompts, adapters):
    requests = _requests(prompts, adapters["weak"])
    texts = []
    for depth in (4, 0, 2, 1, 3, None):
        engine.set_depth(depth)
        with engine.counters() as window:
            completions = engine.generate(requests)
        texts.append(_texts(completions))
        effective = 4 if depth is None else depth
        assert {n for c in completions for n in c.drafted_per_step} == ({effective} if effective else set())
        assert window.delta.num_draft_tokens == window.delta.num_drafts * effective
        assert (window.delta.num_drafts > 0) == (effective > 0)
    assert all(text == texts[0] for text in texts)


def test_each_adapter_has_its_own_depth_in_one_batch(engine, prompts, adapters):
    depths = {"weak": 1, "strong": 0}
    requests = [
        GenerationRequest(f"{p.prompt_id}-{name}", p.token_ids, MAX_TOKENS, adapters.get(name))
        for p in prompts[:2]
        for name in ("base", *depths)
    ]
    alike = engine.generate(requests)
    engine.set_depth(3, depth_by_adapter=depths)
    with engine.counters() as window:
        apart = engine.generate(requests)
    engine.set_depth(None)
    assert _texts(apart) == _texts(alike)
    for completion in apart:
        expected = (depths | {"base": 3})[completion.request_id.split("-")[1]]
        assert set(completion.drafted_per_step) <= {expected} - {0}
    assert window.delta.num_draft_tokens == sum(sum(c.drafted_per_step) for c in apart)


def test_outputs_of_the_pair_end_in_both_ways(engine, prompts):
    assert {c.finish_reason for c in engine.generate(_requests(prompts))} == {"stop", "length"}


@pytest.mark.parametrize("depth", [1, 3, 4])
@pytest.mark.parametrize("name", [None, "strong"])
def test_replay_equals_the_engines_counters(engine, prompts, pair, adapters, depth, name):
    adapter = adapters[name] if name else None
    engine.set_depth(depth)
    with engine.counters() as window:
        live = engine.generate(_requests(prompts, adapter))
    trajectories = record_trajectories(
        engine, prompts, adapter=adapter, max_tokens=MAX_TOKENS, num_overrun_tokens=depth
    )
    assert [t.output_token_ids for t in trajectories] == _texts(live)
    records = replay_arm(
        open_replayer("transformers", drafter=pair[1]),
        trajectories,
        prompt_set="own",
        arm="base",
        adapter_name=name,
        depths=[depth],
    )
    assert [r.counts for r in records] == [c.counts(depth) for c in live]
    assert 0 < window.delta.num_accepted_tokens == sum(r.counts.num_accepted_tokens for r in records)


def test_measured_records_are_paired_and_reconciled(engine, prompts, adapters):
    records = measure_acceptance(
        engine,
        {"own": prompts, "common": prompts[:3]},
        adapter=adapters["strong"],
        num_speculative_tokens=3,
        max_tokens=24,
        min_drafts=5,
    )
    assert len(records) == 2 * (8 + 3)
    base, adapted = ([r for r in records if r.arm == arm and r.prompt_set == "own"] for arm in ("base", "adapted"))
    assert [r.prompt_id for r in base] == [r.prompt_id for r in adapted]
    assert [r.output_token_ids for r in base] != [r.output_token_ids for r in adapted]


def test_a_zero_adapter_repeats_the_base_and_only_it_may(engine, prompts, adapters):
    options = {"num_speculative_tokens": 2, "max_tokens": 12, "min_drafts": 5}
    records = measure_acceptance(engine, {"own": prompts}, adapter=adapters["zero"], **options)
    base, adapted = ([r for r in records if r.arm == arm] for arm in ("base", "adapted"))
    assert [(r.output_token_ids, r.counts) for r in base] == [(r.output_token_ids, r.counts) for r in adapted]
    claimed = AdapterRef("claims-an-update", adapters["zero"].path, adapters["zero"].lora_rank)
    with pytest.raises(MeasurementError, match="ignored it"):
        measure_acceptance(engine, {"own": prompts}, adapter=claimed, **options)


def test_step_cells_of_every_depth_come_from_one_engine(engine, prompts, adapters):
    from contextlib import nullcontext

    cells = measure_step_times(
        engine,
        depths=[0, 1, 4],
        batch_sizes=[2, 8],
        num_trials=3,
        prompts=prompts,
        adapters=[adapters["weak"], adapters["strong"]],
        num_steps=4,
        num_warmup_steps=1,
        seed=0,
        max_other_cores=float("inf"),
        lock=nullcontext,
    )
    assert len(cells) == 3 * 2 * 3
    assert all(len(cell.step_ms) == 4 and min(cell.step_ms) > 0 for cell in cells)
    engine.set_depth(2)
    assert len(engine.generate(_requests(prompts))) == len(prompts)
    engine.set_depth(None)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"max_tokens": 150}, "exceed max_model_len"),
        ({"adapter": AdapterRef("big", "nowhere", 64)}, "beyond max_lora_rank"),
    ],
)
def test_what_cannot_be_counted_exactly_is_refused(engine, change, message):
    request = GenerationRequest(**{"request_id": "x", "prompt_token_ids": (1, 5, 6), "max_tokens": 8} | change)
    with pytest.raises(EngineError, match=message):
        engine.generate([request])


@pytest.mark.parametrize("depth", [-1, 5])
def test_a_depth_beyond_the_engine_is_refused(engine, depth):
    with pytest.raises(EngineError, match=r"outside 0\.\.4"):
        engine.set_depth(depth)


def test_chat_prompts_are_encoded_with_the_template(engine):
    assert engine.encode_chat(["w0 w1"]) == [(1, 3, 4)]
