"""Real vLLM on a tiny random pair: three engines side by side, and the record that they give."""

import json
from contextlib import nullcontext
from pathlib import Path

import pytest

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]

_ENGINE = {
    "enforce_eager": True,
    "dtype": "float32",
    "max_model_len": 160,
    "max_num_seqs": 8,
    "max_lora_rank": 8,
    "kv_cache_gib": 1,
}


def _cells(context, depths, mixes, prompts, ranks):
    return {
        "decode": [{"num_context_tokens": context, "batch_sizes": [2], "depths": depths}],
        "mixed": [{"num_context_tokens": context, "batch_sizes": [3], "mixes": mixes}],
        "prefill": {"num_prompt_tokens": prompts, "num_context_tokens": context, "batch_sizes": [2], "depths": [0, 2]},
        "no_drafter": {"num_context_tokens": context, "batch_sizes": [2], "depths": [0]},
        "no_lora": {"num_context_tokens": context, "batch_sizes": [2], "depths": [2]},
        "load_ranks": ranks,
    }


def test_three_engines_side_by_side_give_every_cell_and_the_record_loads(pair, adapters):
    from lora_spec.measurement.cost_parts import profile_cost_parts
    from lora_spec.measurement.cost_parts_payload import CostPartsPayload
    from lora_spec.typed import check_type

    settings = {
        "fit": _cells(8, [0, 3], [[0, 2]], [6, 20], [2, 8]),
        "validation": _cells(12, [2], [[1, 2]], [10], [4]),
        "num_trials": 3,
        "num_steps": 2,
        "num_warmup_steps": 1,
        "max_other_cores": float("inf"),
        "max_wait_s": 1.0,
        "seed": 0,
    }
    said = []
    payload = profile_cost_parts(
        settings,
        _ENGINE,
        target=Path(pair[0]),
        drafter=Path(pair[1]),
        adapters={name: Path(adapters[name].path) for name in ("weak", "strong")},
        names={"target": "tiny", "drafter": "tiny"},
        report=said.append,
        lock=nullcontext,
    )
    found = check_type(CostPartsPayload, json.loads(json.dumps(payload)), "payload")
    make_ups = {cell.make_up for cell in found["cells"]}
    assert len(found["cells"]) == 3 * len(make_ups)
    assert ("served", (0, 0, 2), 8, 0) in make_ups  # a mix, dealt to two adapters
    assert ("served", (2, 2), 8, 20) in make_ups  # a prompt beside a batch
    assert {arm for arm, *_ in make_ups} == {"served", "no_drafter", "no_lora"}
    assert sorted({(load.use, load.lora_rank) for load in found["loads"]}) == [
        ("fit", 2),
        ("fit", 8),
        ("validation", 4),
    ]
    # Whatever the machine does, an adapter that is read from disk takes longer than one that is there.
    first = [load.first_use_ms - load.loaded_ms for load in found["loads"]]
    assert sorted(first)[len(first) // 2] > 0
    assert "max_cpu_loras" in found["engines"]["no_drafter"]
    assert "speculative_config" not in found["engines"]["no_drafter"]
    assert len(said) == 3 * 2 * (1 + 1 + 1 + 1 + 3 + 2) + 3 * 3
