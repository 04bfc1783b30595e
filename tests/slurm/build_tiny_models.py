"""Write a tiny pair with a tokenizer of bytes, and adapters for it; run by the serving environment's Python.

python build_tiny_models.py FOLDER    # FOLDER/target, FOLDER/drafter, FOLDER/adapters/NAME
"""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1] / "serving"))

from tiny_models import save_adapter, save_pair

from lora_spec.training.own_tokenizer import train_tokenizer

SCALES = {"weak": 0.1, "strong": 0.6, "stronger": 0.9, "strongest": 1.2}

if __name__ == "__main__":
    root = Path(sys.argv[1])
    tokenizer = train_tokenizer(["the quick brown fox", "0123456789"] * 4, vocab_size=288)
    sizes = {"vocab_size": len(tokenizer), "bos": tokenizer.pad_token_id, "eos": tokenizer.eos_token_id}
    target, _ = save_pair(root, tokenizer.save_pretrained, **sizes)
    (root / "adapters").mkdir()
    for seed, (name, scale) in enumerate(SCALES.items()):
        save_adapter(root / "adapters" / name, target, seed, scale)
