"""Both campaigns of a tier, from the scripts' own library calls, on real vLLM and the tiny pair."""

from pathlib import Path

import pytest
from word_campaign import ENGINE, word_prompts

from lora_spec.measurement.campaign import Campaign, Folders, execute_campaign
from lora_spec.measurement.cost_profile import profile_cost
from lora_spec.measurement.summary import SummarySettings, summarise_record
from lora_spec.step_time_cell import StepTimeCell

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]

COUNTING = {
    "weights": "lora",
    "drafters": ["final", "ngram"],
    "is_base_text_rescored": False,
    "max_num_seqs": 16,
    "num_live_prompts": 6,
}


@pytest.fixture(scope="module")
def campaign():
    rows = [{"name": name, "domain": "words", "source": "shipped"} for name in ("weak", "zero")]
    return Campaign(
        rows=tuple(rows),
        phase1={
            "num_speculative_tokens": 3,
            "max_depth": 4,
            "min_drafts": 8,
            "num_warmup_prompts": 1,
            "counting": COUNTING,
        },
        prompts=(word_prompts("own", "words"), word_prompts("common", "chat")),
        engine=ENGINE,
        pair={role: {"name": role, "source": {"kind": "shipped"}} for role in ("target", "drafter")},
    )


@pytest.fixture(scope="module")
def payloads(campaign, pair, adapters):
    target, drafter = map(Path, pair)
    folders = {name: Path(ref.path) for name, ref in adapters.items()}
    measured = execute_campaign(campaign, Folders(target, drafter, folders))
    return {record.adapter: record for record, _ in measured}


def _counts(record, source, depth, **view):
    chosen = record.chosen(source, **view)
    return {(r.prompt_set, r.arm, r.prompt_id): r.counts for r in chosen if r.counts.num_speculative_tokens == depth}


@pytest.mark.parametrize("name", ["weak", "zero"])
def test_replay_equals_the_engines_counters_prompt_by_prompt(payloads, name):
    live, replay = _counts(payloads[name], "live", 3), _counts(payloads[name], "replay", 3)
    assert len(live) == 24
    assert live == replay


def test_zero_update_changes_nothing(payloads):
    how = SummarySettings(num_speculative_tokens=3, min_drafts=8, level=0.9, num_bootstrap_draws=50, seed=0)
    for effect in summarise_record(payloads["zero"], how)["effects"]:
        assert effect["counts"]["base"] == effect["counts"]["adapted"]
        assert effect["acceptance_length_difference"]["estimate"] == 0


def test_step_times_cover_every_depth_batch_size_and_trial(pair, adapters):
    target, drafter = map(Path, pair)
    step_time = {
        "depths": [0, 2],
        "batch_sizes": [1, 4],
        "num_trials": 3,
        "num_steps": 3,
        "num_warmup_steps": 1,
        "num_context_tokens": 32,
        "max_other_cores": 64.0,
        "max_wait_s": 0.0,
        "seed": 0,
    }
    lines = []
    payload = profile_cost(
        step_time, ENGINE, target=target, drafter=drafter, adapters={"weak": Path(adapters["weak"].path)},
        names={"target": "target", "drafter": "drafter"}, report=lines.append,
    )  # fmt: skip
    cells = [StepTimeCell.from_dict(cell) for cell in payload["cells"]]
    keys = {(c.num_speculative_tokens, c.batch_size, c.trial) for c in cells}
    assert keys == {(k, b, t) for k in (0, 2) for b in (1, 4) for t in range(3)}
    assert len(lines) == len(cells)
    assert all(len(cell.step_ms) == 3 and min(cell.step_ms) > 0 for cell in cells)
