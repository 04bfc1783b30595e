"""A drafter with as many tokens as its target: families pad their vocabularies differently by size of the model.

vLLM compares the sizes in the two configurations and refuses a pair where they differ, although the tokens are the
same. The drafter's embeddings are given rows that stand for no token. What must such a row be, so that it is never
drafted? A logit is h . w without a bias, so a row of zeros has logit 0 and wins wherever all real logits are negative,
and every other fixed direction wins for some h. A mean of real rows cannot: its logit is the mean of theirs, and no
mean is above its largest part. It is strictly below unless all logits are equal, in exact arithmetic for every h;
in bfloat16 as long as the best token is ahead of the mean by more than rounding.
"""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lora_spec.errors import TrainingInputError
from lora_spec.provenance import sha256_of_file
from lora_spec.results import read_json, write_json_atomically
from lora_spec.training.atomic_dir import atomic_dir

if TYPE_CHECKING:
    import torch

REPORT = "padding.json"
_ROWS_PER_TOKEN = ("model.embed_tokens.weight", "lm_head.weight")
_INDEX = "model.safetensors.index.json"


def pad_vocabulary(drafter_dir: Path, target_dir: Path, out_dir: Path) -> dict[str, Any]:
    """Write the drafter with its vocabulary padded to the target's, and return what was done, with hashes.

    Every other tensor and file is kept byte for byte. The report stands in ``padding.json`` beside the weights.

    Raises
    ------
    TrainingInputError
        The output lies in one of the models' folders or holds one, a folder is no plain model's, the drafter has more
        tokens than the target, the two tokenizers name tokens differently, or a weight with a
        row per token is missing or of another size than the configuration says.
    """
    _check_apart(out_dir, drafter_dir, target_dir)
    config, target = (_config(folder) for folder in (drafter_dir, target_dir))
    num_tokens, num_wanted = config["vocab_size"], target["vocab_size"]
    if num_tokens > num_wanted:
        raise TrainingInputError(
            f"{drafter_dir} has {num_tokens} tokens and its target {num_wanted}: rows can be added and not taken away; "
            "choose another drafter"
        )
    _check_same_tokens(drafter_dir, target_dir)
    with atomic_dir(out_dir) as part:
        shutil.copytree(drafter_dir, part, dirs_exist_ok=True)
        padded = [
            name for path in sorted(part.glob("*.safetensors")) for name in _pad_file(path, num_tokens, num_wanted)
        ]
        if _ROWS_PER_TOKEN[0] not in padded:
            raise TrainingInputError(f"{drafter_dir} holds no {_ROWS_PER_TOKEN[0]}: it is no plain model folder")
        write_json_atomically(part / "config.json", {**config, "vocab_size": num_wanted})
        _update_index(part)
        report = {
            "num_tokens": num_tokens,
            "num_rows_added": num_wanted - num_tokens,
            "row": "mean of all rows",
            "padded": padded,
            "drafter_sha256": _hashes(drafter_dir),
            "padded_sha256": _hashes(part),
        }
        write_json_atomically(part / REPORT, report)
    return report


def _check_apart(out_dir: Path, *model_dirs: Path) -> None:
    """Refuse an output that would replace a model as published, or be copied into itself."""
    out = out_dir.resolve()
    for folder in (path.resolve() for path in model_dirs):
        if out in (folder, *folder.parents) or folder in out.parents:
            raise TrainingInputError(
                f"{out_dir}: would replace {folder} or lie inside it; name a folder of its own for the padded drafter"
            )


def _config(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    config = read_json(path)
    size = config.get("vocab_size") if isinstance(config, dict) else None
    if not isinstance(size, int) or isinstance(size, bool) or size < 1:
        raise TrainingInputError(
            f"{path}: vocab_size is {size!r}, no number of tokens; give a plain causal model, whose file has it "
            "at the top"
        )
    return config


def _check_same_tokens(drafter_dir: Path, target_dir: Path) -> None:
    """Refuse two tokenizers that give a text other token ids: acceptance would be chance."""
    ours, theirs = (_tokens(folder / "tokenizer.json") for folder in (drafter_dir, target_dir))
    if ours != theirs:
        odd = sorted(set(ours.items()) ^ set(theirs.items()))[0]
        raise TrainingInputError(
            f"the tokenizers of {drafter_dir} and {target_dir} differ, at token {odd[0]!r}: padding does not help two "
            "models that mean different things by one number; choose a drafter of the target's family"
        )


def _tokens(path: Path) -> dict[str, int]:
    """Return token to id; a Unigram model lists its tokens with their scores, in the order of their ids."""
    tokenizer = read_json(path)
    try:
        vocab = tokenizer["model"]["vocab"]
        known = dict(vocab) if isinstance(vocab, dict) else {token: id_ for id_, (token, _) in enumerate(vocab)}
        return known | {token["content"]: token["id"] for token in tokenizer.get("added_tokens") or []}
    except (AttributeError, KeyError, TypeError, ValueError) as err:
        raise TrainingInputError(
            f"{path}: no tokenizer with a vocabulary ({type(err).__name__}: {err}); fetch the model again"
        ) from err


def _pad_file(path: Path, num_tokens: int, num_wanted: int) -> list[str]:
    """Pad the weights of one file that have a row per token, and return their names; others are left alone."""
    from safetensors import SafetensorError, safe_open
    from safetensors.torch import load_file, save_file

    try:
        with safe_open(path, "pt") as file:
            metadata, found = file.metadata(), [name for name in _ROWS_PER_TOKEN if name in set(file.keys())]
    except SafetensorError as err:
        raise TrainingInputError(f"{path.name}: not a whole safetensors file ({err}); fetch the model again") from err
    if not found or num_tokens == num_wanted:
        return found
    tensors = load_file(path)
    for name in found:
        if len(tensors[name]) != num_tokens:
            raise TrainingInputError(
                f"{path.name}: {name} has {len(tensors[name])} rows, config.json says vocab_size {num_tokens}; "
                "fetch the model again"
            )
        tensors[name] = with_mean_rows(tensors[name], num_wanted)
    save_file(tensors, path, metadata=metadata)
    return found


def with_mean_rows(rows: "torch.Tensor", num_wanted: int) -> "torch.Tensor":
    """Return (num_rows, width) with their mean repeated below until there are ``num_wanted``."""
    import torch

    mean = rows.float().mean(dim=0, keepdim=True).to(rows.dtype)
    return torch.cat([rows, mean.expand(num_wanted - len(rows), -1)])


def _update_index(folder: Path) -> None:
    path = folder / _INDEX
    if not path.exists():
        return
    from safetensors import safe_open

    index, size = read_json(path), 0
    for file in sorted(folder.glob("*.safetensors")):
        with safe_open(file, "pt") as weights:
            tensors = [weights.get_tensor(name) for name in weights.keys()]  # noqa: SIM118 - a handle is no mapping
            size += sum(tensor.numel() * tensor.element_size() for tensor in tensors)
    write_json_atomically(path, {**index, "metadata": {**index.get("metadata", {}), "total_size": size}})


def _hashes(folder: Path) -> dict[str, str]:
    return {path.name: sha256_of_file(path) for path in sorted(folder.glob("*.safetensors"))}
