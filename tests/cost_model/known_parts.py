"""Steps of a known make-up and price, written out apart from the code that fits them."""

from itertools import product

import numpy as np

from lora_spec.cost_cells import AdapterLoadCell, CostCell

PRICES = {
    "step_ms": 30.0,
    "token_ms": 0.5,
    "context_token_ms": 0.004,
    "speculate_ms": 2.0,
    "draft_pass_ms": 7.0,
    "draft_token_ms": 0.3,
    "idle_draft_ms": 6.0,
    "idle_draft_token_ms": 0.2,
    "prefill_ms": 3.0,
    "prefill_token_ms": 0.9,
    "draft_prefill_token_ms": 0.15,
    "lora_ms": 40.0,
    "lora_token_ms": 3.0,
    "lora_prefill_token_ms": 2.5,
}
LOADS = {"load_ms": 20.0, "load_per_rank_ms": 1.5, "place_ms": 4.0, "place_per_rank_ms": 0.5}


def price_ms(arm, depths, prefill, context, prices=PRICES) -> float:
    """Return a step's time in words: target, cache, drafter, prompt and LoRA, one after the other."""
    p = prices
    verified = sum(depth + 1 for depth in depths)
    time = p["step_ms"] + p["token_ms"] * verified + p["context_token_ms"] * context
    if any(depths):
        passes = max(depths)
        time += p["speculate_ms"] + passes * (p["draft_pass_ms"] + p["draft_token_ms"] * len(depths))
    elif arm != "no_drafter":
        time += p["idle_draft_ms"] + p["idle_draft_token_ms"] * len(depths)
    if prefill:
        time += p["prefill_ms"] + prefill * p["prefill_token_ms"]
        if arm != "no_drafter":
            time += prefill * p["draft_prefill_token_ms"]
    if arm != "no_lora":
        time += p["lora_ms"] + p["lora_token_ms"] * verified + p["lora_prefill_token_ms"] * prefill
    return time


def _make_ups(batch_sizes, contexts, depths, mixes, prompts):
    for context, b in product(contexts, batch_sizes):
        yield from (("served", (k,) * b, context, 0) for k in depths)
        yield "no_drafter", (0,) * b, context, 0
        yield from (("no_lora", (k,) * b, context, 0) for k in (0, depths[-1]))
    yield from (("served", mix, contexts[0], 0) for mix in mixes)
    for arm, prompt in product(("served", "no_drafter", "no_lora"), prompts):
        yield arm, (), 0, prompt
    yield from (("served", (k,) * 4, contexts[0], prompt) for k, prompt in product((0, 2), prompts))


def made_cells(*, noise=0.0, trials=3, drift=(1.0, 1.0, 1.0, 1.0), steps=5, prices=PRICES, seed=0) -> list[CostCell]:
    """Return fit and validation cells; ``drift`` multiplies whole trials, ``noise`` is relative per step."""
    rng = np.random.default_rng(seed)
    chosen = {
        "fit": _make_ups((1, 4, 16), (32, 224), (0, 1, 3), ((0, 3, 0, 3), (0, 1, 4)), (16, 96, 256)),
        "validation": _make_ups((2, 8), (96,), (0, 1, 2, 3), ((0, 2, 2), (1, 3)), (48, 160)),
    }
    return [
        CostCell(
            use=use,
            arm=arm,
            depths=depths,
            num_prompt_tokens=prompt,
            num_prefill_tokens=prefill,
            num_context_tokens=prompt * len(depths),
            lora_rank=0 if arm == "no_lora" else 8,
            trial=trial,
            step_ms=tuple(
                price_ms(arm, depths, prefill, prompt * len(depths), prices)
                * drift[trial]
                * np.exp(noise * rng.standard_normal(steps))
            ),
            load_before=0.1,
            load_after=0.2,
        )
        for use, make_ups in chosen.items()
        for arm, depths, prompt, prefill in make_ups
        for trial in range(trials)
    ]


def made_loads(trials=3) -> list[AdapterLoadCell]:
    """Return loads on two lines over rank; rank 4 is held out."""
    return [
        AdapterLoadCell(
            use="validation" if rank == 4 else "fit",
            lora_rank=rank,
            trial=trial,
            first_use_ms=100 + LOADS["load_ms"] + LOADS["load_per_rank_ms"] * rank,
            from_memory_ms=100 + LOADS["place_ms"] + LOADS["place_per_rank_ms"] * rank,
            loaded_ms=100.0,
        )
        for rank in (2, 4, 8, 16)
        for trial in range(trials)
    ]
