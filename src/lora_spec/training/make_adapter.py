"""Makes the adapter of any row of the pool: trained on its domain, or the control that changes nothing."""

from pathlib import Path

from lora_spec.errors import TrainingError
from lora_spec.training.derived import zero_adapter
from lora_spec.training.domains import find_domain
from lora_spec.training.lora import train_lora
from lora_spec.training.own_answers import OwnAnswers, load_own_answers
from lora_spec.training.recipe import AdapterRecipe


def make_adapter(
    target_dir: Path,
    row: AdapterRecipe,
    out_dir: Path,
    *,
    base_model_name: str,
    answers_dir: Path | None,
    num_threads: int,
) -> Path:
    """Write the adapter of one row to ``out_dir`` and return it; a row with a parent needs ``scaled_adapter``.

    Parameters
    ----------
    answers_dir
        Folder of trajectory shards, opened only where the row's domain rewrites the target's own answers.

    Raises
    ------
    TrainingError
        What :func:`~lora_spec.training.lora.train_lora` raises, or when the shards are missing.
    """
    if row.stratum == "control":
        return zero_adapter(target_dir, row, out_dir, base_model_name=base_model_name)
    own_answers = OwnAnswers()
    if find_domain(row.domain).needs_own_answers:
        if answers_dir is None:
            raise TrainingError(
                f"adapter '{row.name}': domain '{row.domain}' rewrites the target's own answers; "
                "pass the folder of its trajectories"
            )
        from transformers import AutoTokenizer

        own_answers = load_own_answers(answers_dir, tokenizer=AutoTokenizer.from_pretrained(target_dir))
    trained = train_lora(
        target_dir, row, out_dir, base_model_name=base_model_name, own_answers=own_answers, num_threads=num_threads
    )
    return trained.out_dir
