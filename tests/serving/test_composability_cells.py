"""Cells of the composability matrix on real vLLM and the tiny pair, each in its own process as in a campaign.

Reference texts come from transformers and peft, so that the engine is held against something else than itself.
"""

from pathlib import Path

import pytest

from lora_spec.config import load_tier
from lora_spec.measurement.composability.cache_semantics import CacheTest, make_cache_tests
from lora_spec.measurement.composability.cells import enumerate_cells, find_cells
from lora_spec.measurement.composability.plan import Phase0Plan
from lora_spec.measurement.composability.runner import CellRunner, RunInputs
from lora_spec.measurement.composability.workload import Workload, text_id

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]

USUAL = "draft_model+lora-one+prefix-on+chunked-on+eager+sync+greedy+free"
NAMES = ("strong", "stronger", "weak")
ENGINE = {
    "max_model_len": 160,
    "max_num_seqs": 8,
    "max_lora_rank": 8,
    "gpu_memory_utilization": None,
    "kv_cache_gib": 1,
    "num_threads": 1,
}
PREAMBLE = " ".join(f"w{(11 * i) % 190}" for i in range(70))


@pytest.fixture(scope="module")
def runner(pair, adapters, tmp_path_factory):
    config = load_tier(Path(__file__).parents[2], "mini").phase0_runtime.model_copy(update={"max_tokens": 10})
    messages = tuple(f"{PREAMBLE} w{3 + i} w{50 + 7 * i}" for i in range(2))
    cells = enumerate_cells(config.axes, config.pruning)
    plan = Phase0Plan("mini", config, ENGINE, {}, (), cells, (), messages, {}, ())
    inputs = RunInputs(*pair, tuple(adapters[name] for name in NAMES), {})
    return CellRunner(plan, inputs, tmp_path_factory.mktemp("phase0"))


@pytest.fixture(scope="module")
def references(runner, pair):
    """Return greedy texts of the base and of every adapter, token by token, without any cache."""
    from peft import PeftModel
    from transformers import AutoTokenizer, LlamaForCausalLM

    tokenizer = AutoTokenizer.from_pretrained(pair[0])
    texts = {}
    for name, folder in {None: None, **runner.load.folders}.items():
        model = LlamaForCausalLM.from_pretrained(pair[0]).eval()
        model = PeftModel.from_pretrained(model, folder).eval() if folder else model
        for index, message in enumerate(runner.load.messages):
            chat = [{"role": "user", "content": message}]
            ids = tokenizer.encode(
                tokenizer.apply_chat_template(chat, tokenize=False, add_generation_prompt=True),
                add_special_tokens=False,
            )
            texts[text_id(name, index, is_held=False)] = _greedy(model, ids, runner.load.max_tokens)
    return texts


def _greedy(model, ids, max_tokens):
    import torch

    token_ids, tops = [], []
    with torch.inference_mode():
        while len(token_ids) < max_tokens and token_ids[-1:] != [2]:
            best = torch.log_softmax(model(torch.tensor([[*ids, *token_ids]])).logits[0, -1], dim=-1).topk(2)
            token_ids.append(int(best.indices[0]))
            tops.append(list(zip(best.indices.tolist(), best.values.tolist(), strict=True)))
    return {"token_ids": token_ids, "top_logprobs": tops}


class _IgnoresAdapters(Workload):
    """Asks for adapters under their names and sends the requests without them."""

    def lora_ref(self, adapter):
        return None


def test_a_drafter_beside_an_adapter_works(runner, references):
    (cell,) = find_cells(runner.plan.cells, (USUAL,))
    entry = runner.observe(cell, references)
    assert (entry["status"], entry["reason"]) == ("works", "every check holds")
    assert entry["in_force"]["method"] == "draft_model"
    assert entry["prefix_cache"]["hits"] > 0
    assert entry["peak_rss_mib"] > 100
    assert entry["median_step_ms"] > 0


def test_an_engine_that_ignores_the_adapter_is_wrong(runner, references):
    (cell,) = find_cells(runner.plan.cells, (USUAL,))
    deaf = CellRunner(runner.plan, runner.inputs, runner.folder / "deaf")
    deaf.load = _IgnoresAdapters(**vars(runner.load))
    entry = deaf.observe(cell, references)
    assert entry["status"] == "wrong"
    assert "strong/0/free is the text of base" in entry["reason"]
    assert "adapter_applied: served as the base" in entry["reason"]


@pytest.fixture(scope="module")
def cache_tests(runner, references):
    names = ("coming_and_going", "reregistration", "rolling_update")
    return {test.name: test for test in make_cache_tests(runner.load, references, runner.folder, names)}


def test_caches_keep_adapters_apart_reload_them_and_go_stale_where_vllm_goes_by_name_and_path(
    runner, references, cache_tests
):
    one, other = cache_tests["coming_and_going"], cache_tests["reregistration"]
    # One process for both, since starting takes longer than either.
    both = CacheTest(
        "both",
        one.message_index,
        one.waves + other.waves,
        {**one.due, **other.due},
        {**one.claims, **other.claims},
        True,
    )
    entries = {entry["test"]: entry for entry in runner.observe_cache(both, references)}
    assert {claim: entry["observed"] for claim, entry in entries.items()} == {
        "prefix_cache_is_per_adapter": True,
        "evicted_adapter_is_reloaded": True,
        "new_id_and_path_are_reread": True,
        "same_id_is_reread": False,
        "same_id_with_load_inplace_is_reread": True,
        # The prefix cache goes by name and path, so that blocks of the old file's weights are served with the new.
        "new_id_on_same_path_is_reread": False,
    }
    assert entries["same_id_is_reread"]["requests"][0]["served"] == "strong"
    assert entries["new_id_on_same_path_is_reread"]["requests"][0]["served"] not in ("stronger", "strong")


def test_two_weights_of_one_name_in_one_batch_end_the_engine(runner, references, cache_tests):
    (entry,) = runner.observe_cache(cache_tests["rolling_update"], references)
    assert (entry["status"], entry["observed"], entry["stage"]) == ("crashed", None, "generate")
    assert entry["reason"].startswith("KeyError")
    assert entry["log_tail"]
