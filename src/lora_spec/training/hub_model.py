"""A model of the hub at one immutable commit, as a plain folder."""

import shutil
from pathlib import Path

from lora_spec.errors import TrainingInputError
from lora_spec.training.atomic_dir import atomic_dir

_WANTED = ("*.safetensors", "*.json", "*.jinja", "merges.txt")


def fetch_hub_model(repo: str, revision: str | None, out_dir: Path) -> Path:
    """Download a model's weights, configuration and tokenizer, and return ``out_dir``, which appears whole or not.

    Raises
    ------
    TrainingInputError
        The revision is null (unpinned), the hub does not give it, or there are no weights in it that can be read.
    """
    if revision is None:
        raise TrainingInputError(f"{repo}: no immutable revision (revision: null); give 40 hex digits in its config")
    from huggingface_hub import snapshot_download

    with atomic_dir(out_dir) as part:
        try:
            snapshot_download(repo, revision=revision, local_dir=part, allow_patterns=list(_WANTED))
        except Exception as error:  # whatever its client makes of a name, a broken line or a page that is no answer
            said = " ".join(str(error).split())[:200]
            raise TrainingInputError(
                f"{repo} at {revision} cannot be fetched ({type(error).__name__}: {said}); check the revision, the "
                f"network, the disk and that you may read it, or put the folder to {out_dir} yourself"
            ) from error
        if not any(part.glob("*.safetensors")):
            raise TrainingInputError(
                f"{repo} at {revision} holds no *.safetensors, and other weights are not read (a pickle can run code); "
                "name another repository or revision, or leave it out"
            )
        shutil.rmtree(part / ".cache", ignore_errors=True)
    return out_dir
