"""Merged weights in a running engine, and what the n-gram drafter would do, against real vLLM."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from word_campaign import ENGINE, word_prompts

from lora_spec.engines import GenerationRequest, open_engine
from lora_spec.engines.ngram_replay import drafted_by_lookup
from lora_spec.measurement.campaign import Campaign, Folders, execute_campaign
from lora_spec.measurement.record_store import collect_into
from lora_spec.measurement.record_table import read_records
from lora_spec.training.merged import merged_weights

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def merged_engine(pair):
    with open_engine("vllm_offline", target=pair[0], dtype="float32", max_model_len=160, max_num_seqs=8) as started:
        yield started


def _texts(engine, prompts):
    return [
        c.output_token_ids for c in engine.generate([GenerationRequest(p.prompt_id, p.token_ids, 20) for p in prompts])
    ]


def test_weights_change_in_place_and_come_back(merged_engine, pair, adapters, prompts):
    target = Path(pair[0])
    base = _texts(merged_engine, prompts)
    seen = {}
    for name in ("weak", "strong", "zero"):
        merged_engine.reload_weights(merged_weights(target, Path(adapters[name].path)))
        seen[name] = _texts(merged_engine, prompts)
    merged_engine.reload_weights(merged_weights(target, None))
    assert _texts(merged_engine, prompts) == base == seen["zero"]
    assert seen["strong"] != base
    for name in ("weak", "strong"):
        assert seen[name] == _greedy(merged_weights(target, Path(adapters[name].path)), target, prompts, seen[name])


def _greedy(weights, target, prompts, texts):
    """Return the argmax continuation of a model with these weights, without any cache."""
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(target).eval()
    model.load_state_dict(dict(weights), strict=False)
    found = []
    with torch.inference_mode():
        for prompt, text in zip(prompts, texts, strict=True):
            ids = list(prompt.token_ids)
            for _ in text:
                ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
            found.append(tuple(ids[len(prompt.token_ids) :]))
    return found


@pytest.fixture(scope="module")
def campaign():
    counting = {"weights": "merged", "drafters": ["final", "ngram"], "is_base_text_rescored": True, "max_num_seqs": 16}
    rows = tuple({"name": name, "domain": "words", "source": "shipped"} for name in ("strong", "zero"))
    return Campaign(
        rows=rows,
        phase1={
            "num_speculative_tokens": 3,
            "max_depth": 4,
            "min_drafts": 8,
            "num_warmup_prompts": 1,
            "counting": {**counting, "num_live_prompts": 6},
        },
        prompts=(word_prompts("own", "words"), word_prompts("common", "chat")),
        engine=ENGINE,
        pair={role: {"name": role, "source": {"kind": "shipped"}} for role in ("target", "drafter")},
    )


def test_merged_counts_equal_those_of_served_lora(campaign, pair, adapters, tmp_path):
    target, drafter = map(Path, pair)
    folders = Folders(target, drafter, {name: Path(ref.path) for name, ref in adapters.items()})
    collect_into(tmp_path, campaign, folders, state_dir=tmp_path / "state", tier="test", provenance={})
    records = {name: read_records(tmp_path / f"{name}.parquet") for name in ("strong", "zero")}

    lora = {**campaign.phase1["counting"], "weights": "lora", "drafters": ["final"], "is_base_text_rescored": False}
    served_campaign = Campaign(
        rows=campaign.rows,
        phase1={**campaign.phase1, "counting": lora},
        prompts=campaign.prompts,
        engine=campaign.engine,
        pair=campaign.pair,
    )
    for served, _ in execute_campaign(served_campaign, folders):
        for view in ("output_token_ids", "counts"):
            by_cell = {
                weights: {(r.prompt_set, r.arm, r.prompt_id, r.counts.num_speculative_tokens): getattr(r, view)
                          for r in record.chosen("replay")}
                for weights, record in (("lora", served), ("merged", records[served.adapter]))
            }  # fmt: skip
            assert by_cell["lora"] == by_cell["merged"]
    # Judged along the base's text, a zero update sees what the base sees.
    base = [r.counts for r in records["zero"].chosen("replay") if r.arm == "base"]
    on_base = [r.counts for r in records["zero"].chosen("replay", context="base")]
    assert base == on_base
    # A second run finds everything done, and needs no engine for it.
    before = (tmp_path / "strong.parquet").read_bytes()
    nowhere = Folders(target, drafter, folders.adapters)
    collect_into(tmp_path, campaign, nowhere, state_dir=tmp_path / "state", tier="other", provenance={})
    assert (tmp_path / "strong.parquet").read_bytes() == before


NGRAM = """
import json, sys
import numpy as np
from vllm.v1.spec_decode.ngram_proposer import _find_longest_matched_ngram_and_propose_tokens as find
print(json.dumps([find(np.array(t, np.int32), 2, 4, 512, 3).tolist() for t in json.load(sys.stdin)]))
"""


def test_ngram_lookup_drafts_what_vllm_drafts():
    # In a process of its own: vLLM starts no engine where numba was loaded.
    rng = np.random.default_rng(0)
    texts = [rng.integers(0, letters, length).tolist() for letters in (2, 3, 5) for length in range(2, 40)]
    done = subprocess.run(
        [sys.executable, "-c", NGRAM], input=json.dumps(texts), capture_output=True, text=True, check=True
    )
    ours = [
        drafted_by_lookup(np.array(text, np.int32), min_ngram=2, max_ngram=4, num_speculative_tokens=3).tolist()
        for text in texts
    ]
    assert ours == json.loads(done.stdout.splitlines()[-1])
    assert any(ours)
