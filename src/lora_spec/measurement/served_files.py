"""What a server reads of a model's and of an adapter's folder, by hash: a measurement rests on all of it.

Weights alone do not say it: the config's alpha scales an adapter, the tokenizer's template rewrites every prompt.
"""

from pathlib import Path

from lora_spec.provenance import sha256_of_file

_OF_MODEL = (
    "*.safetensors",
    "*.bin",
    "*.index.json",
    "config.json",
    "generation_config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "added_tokens.json",
    "chat_template*",
    "vocab*",
    "merges.txt",
)
ADAPTER_WEIGHTS = "adapter_model.safetensors"
_OF_ADAPTER = (ADAPTER_WEIGHTS, "adapter_config.json")


def model_files_sha256(folder: Path) -> dict[str, str]:
    """Return file name to SHA-256 of everything in a model's folder that decides what it writes."""
    paths = {path for pattern in _OF_MODEL for path in folder.glob(pattern) if path.is_file()}
    return {path.name: sha256_of_file(path) for path in sorted(paths)}


def adapter_files_sha256(folder: Path) -> dict[str, str]:
    """Return file name to SHA-256 of the weights and the config of an adapter."""
    return {name: sha256_of_file(folder / name) for name in _OF_ADAPTER}
