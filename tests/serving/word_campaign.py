"""Engine settings and prompts for campaigns on the tiny pair, whose words are w0 to w195."""

from lora_spec.training.frozen_prompts import FrozenPrompts

ENGINE = {
    "dtype": "float32",
    "max_model_len": 160,
    "max_num_seqs": 8,
    "max_lora_rank": 8,
    "enforce_eager": True,
    "kv_cache_gib": 1,
    "num_threads": 1,
}


def word_prompts(prompt_set, domain):
    """Return six prompts of one set and domain."""
    words = tuple(" ".join(f"w{(7 * i + 3 * j) % 190}" for j in range(4 + i)) for i in range(6))
    return FrozenPrompts(prompt_set, "evaluation", domain, words, 20, 0.0, "CC0-1.0", f"{domain}-hash")
