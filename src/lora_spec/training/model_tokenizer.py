"""The tokenizer in a model folder, or one line that says why there is none."""

from pathlib import Path
from typing import Any

from lora_spec.errors import TrainingInputError
from lora_spec.printing import printable


def load_tokenizer(folder: Path) -> Any:
    """Return the tokenizer of a model folder; nothing is downloaded.

    Raises
    ------
    TrainingInputError
        The folder holds none that can be read.
    """
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, local_files_only=True)
    except Exception as err:  # each broken file ends in another error of another package
        reason = printable(f"{type(err).__name__}: {' '.join(str(err).split())}", 200)
        raise TrainingInputError(
            f"{folder}: holds no tokenizer that can be read ({reason}); fetch the model again"
        ) from err
