"""vLLM refuses a Qwen2 pair of two vocabulary sizes, serves it after padding, and drafts what the unpadded one says."""

import pytest
from word_tokenizer import VOCAB, save_tokenizer

from lora_spec.engines import GenerationRequest, open_engine, open_replayer
from lora_spec.errors import EngineError
from lora_spec.measurement import record_trajectories, replay_arm
from lora_spec.training.padded_vocabulary import pad_vocabulary

pytestmark = [pytest.mark.serving, pytest.mark.filterwarnings("default")]
NUM_ADDED, DEPTH, MAX_TOKENS = 64, 3, 24
OPTIONS = {"dtype": "float32", "max_model_len": 160, "max_num_seqs": 8}


def _qwen2(vocab_size, num_layers, seed):
    import torch
    from transformers import Qwen2Config, Qwen2ForCausalLM

    torch.manual_seed(seed)
    config = Qwen2Config(
        vocab_size=vocab_size,
        hidden_size=64,
        intermediate_size=128,
        num_hidden_layers=num_layers,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=512,
        tie_word_embeddings=True,
        eos_token_id=2,
        initializer_range=0.15,
    )
    return Qwen2ForCausalLM(config).float().eval()


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """Return (target, drafter, padded drafter): the target has 64 rows that no token has, as Qwen2.5-7B beside 0.5B."""
    import torch

    root = tmp_path_factory.mktemp("qwen2")
    target, drafter = _qwen2(VOCAB + NUM_ADDED, 2, seed=0), _qwen2(VOCAB, 1, seed=1)
    with torch.no_grad():
        for name in ("self_attn.o_proj", "mlp.down_proj"):
            target.model.layers[1].get_submodule(name).weight.mul_(0.5)
        # Rows of no token: as good as never first, as after training.
        target.model.embed_tokens.weight[VOCAB:] *= 0.01
        same = {k: v for k, v in target.state_dict().items() if not k.startswith("model.layers.1.")}
        rows = {k: v[:VOCAB] for k, v in same.items() if k in ("model.embed_tokens.weight", "lm_head.weight")}
        drafter.load_state_dict({**same, **rows})
    for name, model in (("target", target), ("drafter", drafter)):
        model.save_pretrained(root / name)
        save_tokenizer(root / name)
    pad_vocabulary(root / "drafter", root / "target", root / "padded")
    return tuple(str(root / name) for name in ("target", "drafter", "padded"))


def test_the_pair_is_refused_as_published(folders):
    target, drafter, _ = folders
    message = rf"vocab_size={VOCAB + NUM_ADDED}\. Draft model vocab_size={VOCAB}"
    with (
        pytest.raises(EngineError, match=message),
        open_engine("vllm_offline", target=target, drafter=drafter, num_speculative_tokens=DEPTH, **OPTIONS),
    ):
        pass


def test_the_padded_pair_serves_the_targets_text_and_counts_as_the_unpadded_drafter_replays(folders, prompts):
    target, drafter, padded = folders
    requests = [GenerationRequest(p.prompt_id, p.token_ids, MAX_TOKENS) for p in prompts]
    with open_engine("vllm_offline", target=target, drafter=padded, num_speculative_tokens=DEPTH, **OPTIONS) as engine:
        with engine.counters() as window:
            live = engine.generate(requests)
        trajectories = record_trajectories(
            engine, prompts, adapter=None, max_tokens=MAX_TOKENS, num_overrun_tokens=DEPTH
        )
    assert [t.output_token_ids for t in trajectories] == [c.output_token_ids for c in live]
    assert max(token for c in live for token in c.output_token_ids) < VOCAB
    for model in (drafter, padded):
        replayed = replay_arm(
            open_replayer("transformers", drafter=model),
            trajectories,
            prompt_set="own",
            arm="base",
            adapter_name=None,
            depths=[DEPTH],
        )
        assert [r.counts for r in replayed] == [c.counts(DEPTH) for c in live]
    accepted = window.delta.num_accepted_tokens
    assert accepted == sum(r.counts.num_accepted_tokens for r in replayed)
    assert 0 < accepted < window.delta.num_draft_tokens
