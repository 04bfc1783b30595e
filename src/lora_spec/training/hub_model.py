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
        The revision is null (unpinned), or the hub does not give it.
    """
    if revision is None:
        raise TrainingInputError(f"{repo}: no immutable revision (revision: null); give 40 hex digits in its config")
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError

    with atomic_dir(out_dir) as part:
        try:
            snapshot_download(repo, revision=revision, local_dir=part, allow_patterns=list(_WANTED))
        except (HfHubHTTPError, LocalEntryNotFoundError, OSError) as error:
            raise TrainingInputError(
                f"{repo} at {revision} cannot be fetched ({type(error).__name__}); check the revision, the network and "
                f"that you may read it, or put the folder to {out_dir} yourself"
            ) from error
        shutil.rmtree(part / ".cache", ignore_errors=True)
    return out_dir
