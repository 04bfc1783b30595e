"""The calibration probe on real vLLM and the tiny pair, from merged weights to columns."""

from dataclasses import replace
from pathlib import Path

import pytest
from word_campaign import ENGINE, word_prompts

from lora_spec.calibration_record import SIGNALS
from lora_spec.engines import open_replayer
from lora_spec.engines.base import Trajectory
from lora_spec.errors import EngineError
from lora_spec.features.calibration import calibration_columns
from lora_spec.measurement.calibration_store import probe_into
from lora_spec.measurement.calibration_table import read_calibration
from lora_spec.measurement.campaign import Campaign, Folders
from lora_spec.training.merged import merged_weights

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]


@pytest.fixture(scope="module")
def campaign():
    words = word_prompts("own", "words")
    shifted = tuple(f"{prompt} w5" for prompt in words.prompts)
    rows = tuple({"name": name, "domain": "words", "source": "shipped"} for name in ("strong", "weak", "zero"))
    return Campaign(
        rows=rows,
        phase1={"max_depth": 4, "counting": {"max_num_seqs": 16}},
        prompts=(words, replace(words, role="calibration", prompts=shifted, sha256="calibration-hash")),
        engine=ENGINE,
        pair={role: {"name": role, "source": {"kind": "shipped"}} for role in ("target", "drafter")},
    )


@pytest.fixture(scope="module")
def records(campaign, pair, adapters, tmp_path_factory):
    target, drafter = map(Path, pair)
    folders = Folders(target, drafter, {name: Path(ref.path) for name, ref in adapters.items()})
    output = tmp_path_factory.mktemp("calibration")
    probe_into(output, campaign, folders, state_dir=output, tier="test", provenance={})
    return {row["name"]: read_calibration(output / f"{row['name']}.parquet") for row in campaign.rows}


def _sum(record, signal):
    return sum(prompt.sum(signal) for prompt in record.prompts)


def test_a_zero_adapter_is_the_base_in_every_number(records):
    zero = records["zero"]
    num_positions = sum(prompt.num_positions for prompt in zero.prompts)
    assert _sum(zero, "kl_base_nats") == _sum(zero, "js_base_nats") == 0
    assert _sum(zero, "is_base_first") == num_positions
    for name in ("entropy", "surprisal"):
        assert _sum(zero, f"{name}_adapted_nats") == _sum(zero, f"{name}_base_nats")
    assert _sum(zero, "is_drafter_first") == _sum(zero, "is_drafter_base_first")


def test_the_stronger_adapter_lies_further_from_the_base(records):
    weak, strong = (_sum(records[name], "js_base_nats") for name in ("weak", "strong"))
    assert 0 < weak < strong


def test_the_adapted_reader_says_what_vllm_wrote(records):
    for record in records.values():
        assert _sum(record, "is_adapted_first") == sum(prompt.num_positions for prompt in record.prompts)


@pytest.mark.parametrize("name", ["strong", "zero"])
def test_counts_of_the_direct_probe_are_those_of_replay(records, pair, adapters, name):
    """Replay needs the tokens past the end, which a record does not keep: a plain model says them again."""
    replayer = open_replayer("transformers", drafter=pair[1], num_threads=1)
    for prompt, token_ids in zip(records[name].prompts, _prompts(pair), strict=True):
        text = prompt.output_token_ids
        past = _continued(pair, adapters[name], token_ids + text, 4)
        trajectory = Trajectory(prompt.prompt_id, token_ids, text, past, prompt.finish_reason)
        (by_depth,) = replayer.replay([trajectory], range(1, 5))
        assert tuple(steps.counts() for steps in by_depth) == prompt.counts_by_depth


def _prompts(pair):
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(pair[0])
    words = word_prompts("own", "words").prompts
    return [tuple(tokenizer.encode(f"<s> {prompt} w5 ", add_special_tokens=False)) for prompt in words]


def _continued(pair, adapter, token_ids, num_tokens):
    import torch
    from transformers import LlamaForCausalLM

    model = LlamaForCausalLM.from_pretrained(pair[0], dtype=torch.float32).eval()
    model.load_state_dict(dict(merged_weights(Path(pair[0]), Path(adapter.path))), strict=False)
    ids = list(token_ids)
    with torch.inference_mode():
        for _ in range(num_tokens):
            ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return tuple(ids[len(token_ids) :])


def test_signals_equal_those_of_whole_forward_passes(records, pair, adapters):
    """Logits of kept positions only, one text at a time, are those of a plain pass of PEFT's model over all of it."""
    import torch
    from peft import PeftModel
    from transformers import LlamaForCausalLM

    target = LlamaForCausalLM.from_pretrained(pair[0], dtype=torch.float32)
    adapted = PeftModel.from_pretrained(target, adapters["strong"].path).eval()
    prompt, token_ids = records["strong"].prompts[2], _prompts(pair)[2]
    whole = torch.tensor([token_ids + prompt.output_token_ids])
    with torch.inference_mode():
        p = adapted(whole).logits[0, len(token_ids) - 1 : -1].double().softmax(-1)
        with adapted.disable_adapter():
            q = adapted(whole).logits[0, len(token_ids) - 1 : -1].double().softmax(-1)
    said = torch.tensor(prompt.output_token_ids)
    assert prompt.signals["kl_base_nats"] == pytest.approx((p * (p / q).log()).sum(-1).tolist(), abs=2e-5)
    assert prompt.signals["entropy_adapted_nats"] == pytest.approx((-p * p.log()).sum(-1).tolist(), abs=2e-5)
    rows = torch.arange(len(said))
    assert prompt.signals["surprisal_base_nats"] == pytest.approx((-q[rows, said].log()).tolist(), abs=2e-5)


def test_every_part_of_the_cost_is_told(records):
    parts = {"merge", "trajectories", "adapted_forward", "base_forward", "drafter_forward", "comparison"}
    for record in records.values():
        assert set(record.cost_by_part) == parts
        assert min(cost.wall_s for cost in record.cost_by_part.values()) > 0


def test_records_become_columns_at_every_number_of_prompts(records):
    for record in records.values():
        for num_prompts in (1, 2, 4, 6):
            columns = calibration_columns(record, num_prompts).values
            length = record.direct_probe(3, num_prompts).acceptance_length
            assert columns["calib_acceptance_length_3"] == length
    assert len(SIGNALS) == 16


def test_a_drafter_that_is_not_there_is_named(pair, tmp_path):
    from lora_spec.engines.text_reader import ComparingReader

    with pytest.raises(EngineError, match="no drafter can be loaded"):
        ComparingReader(pair[0], str(tmp_path))
