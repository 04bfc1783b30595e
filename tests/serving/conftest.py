"""A tiny random pair with a tokenizer and adapters, built on the fly, and one real vLLM engine per module."""

import os

import pytest
from tiny_models import RANK, save_adapter, save_pair
from word_tokenizer import VOCAB, save_tokenizer

# One unbound thread: more gain nothing on a model of this size, and spin for whole time slices on a busy machine.
# Both are read when torch and vLLM are first imported.
os.environ["OMP_NUM_THREADS"] = "1"
os.environ["VLLM_CPU_OMP_THREADS_BIND"] = "nobind"


@pytest.fixture(scope="session")
def pair(tmp_path_factory):
    """Return (target folder, drafter folder) of a pair whose tokens are words."""
    return save_pair(tmp_path_factory.mktemp("pair"), save_tokenizer, vocab_size=VOCAB, bos=1, eos=2)


@pytest.fixture(scope="session")
def adapters(pair, tmp_path_factory):
    """Return a weak, two strong and an exactly zero adapter by name."""
    from lora_spec.engines import AdapterRef

    root = tmp_path_factory.mktemp("adapters")
    scales = {"weak": 0.1, "strong": 0.6, "zero": 0.0, "stronger": 0.9}
    for seed, (name, scale) in enumerate(scales.items()):
        save_adapter(root / name, pair[0], seed, scale)
    return {name: AdapterRef(name, str(root / name), RANK, has_update=scale > 0) for name, scale in scales.items()}


@pytest.fixture(scope="module")
def engine(pair, adapters):
    from lora_spec.engines import open_engine

    target, drafter = pair
    with open_engine(
        "vllm_offline",
        target=target,
        drafter=drafter,
        num_speculative_tokens=4,
        dtype="float32",
        max_model_len=160,
        max_num_seqs=8,
        max_loras=2,
        max_lora_rank=8,
    ) as started:
        yield started


@pytest.fixture(scope="session")
def prompts():
    from lora_spec.measurement import Prompt

    return [Prompt(f"p{i}", (1, *((7 * i + 3 * j) % 190 + 3 for j in range(5 + i)))) for i in range(8)]
