"""Train a small target of another family than the one whose answers it learns from, with a tokenizer of its own."""

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch.nn.functional import cross_entropy

from lora_spec.errors import TrainingInputError
from lora_spec.training.atomic_dir import atomic_dir
from lora_spec.training.batches import encode_pair
from lora_spec.training.distill import Batch, make_batches
from lora_spec.training.domains import DOMAINS, Example
from lora_spec.training.own_answers import read_own_answers
from lora_spec.training.own_tokenizer import train_tokenizer
from lora_spec.training.own_trajectories import HELDOUT_STEM
from lora_spec.training.quick import quick_autocast
from lora_spec.training.resumable import Schedule, train_resumably
from lora_spec.training.trajectories import read_manifest


def train_target(
    teacher_dir: Path, answers_dir: Path, *, training: Mapping[str, Any], state_dir: Path, out_dir: Path
) -> list[dict[str, Any]]:
    """Write a Qwen2 model with its tokenizer to ``out_dir`` and return its learning curve.

    The loss is on the answers; prompts are context. Weights are stored in bf16.

    Parameters
    ----------
    teacher_dir
        Model folder whose tokenizer reads the answers back as text; its weights are not used.
    answers_dir
        Trajectory shards of the teacher; held-out ones are for the curve alone.
    training
        The ``training`` block of a target in ``models.yaml``.
    state_dir
        Where weights, moments and curve survive a kill.

    Raises
    ------
    TrainingInputError
        The folder holds no shard of one of the two kinds.
    """
    torch.manual_seed(training["training_seed"])
    torch.set_num_threads(training["num_threads"])
    trained, held_out = read_teacher_answers(teacher_dir, answers_dir)
    tokenizer = train_tokenizer(_tokenizer_texts(trained, training), vocab_size=training["vocab_size"])
    model = new_qwen2(tokenizer, training)

    def encode(examples: Sequence[Example]) -> list[Batch]:
        pairs = (encode_pair(e, tokenizer=tokenizer, max_tokens=training["max_tokens"]) for e in examples)
        rows = [(np.array(pair.token_ids), pair.num_prompt_tokens) for pair in pairs]
        return make_batches(rows, training["batch_tokens"])

    batches, held_out_batches = encode(trained), encode(held_out)

    def follow(step: int, curve: list[dict[str, Any]]) -> None:
        curve[-1] |= held_out_scores(model, held_out_batches)
        sys.stderr.write(f"{json.dumps(curve[-1])}\n")

    state_dir.mkdir(parents=True, exist_ok=True)
    curve = train_resumably(
        model,
        len(batches),
        lambda number: answer_loss(model, batches[number]),
        schedule=Schedule.of_training(training),
        state_path=state_dir / "state.safetensors",
        on_save=follow,
    )
    with atomic_dir(out_dir) as part:
        model.to(torch.bfloat16).save_pretrained(part)
        tokenizer.save_pretrained(part)
    return curve


def read_teacher_answers(teacher_dir: Path, answers_dir: Path) -> tuple[list[Example], list[Example]]:
    """Return all answers of a folder of shards as text: those to learn from, and the held-out ones."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(teacher_dir)
    names = sorted(read_manifest(answers_dir))
    held_out = [answers_dir / name for name in names if name.startswith(HELDOUT_STEM)]
    trained = [answers_dir / name for name in names if not name.startswith(HELDOUT_STEM)]
    if not held_out or not trained:
        raise TrainingInputError(f"{answers_dir} lacks shards to learn from or held-out ones: generate trajectories")
    return read_own_answers(trained, tokenizer=tokenizer), read_own_answers(held_out, tokenizer=tokenizer)


def _tokenizer_texts(answers: Sequence[Example], training: Mapping[str, Any]) -> Iterator[str]:
    """Yield the chat text and, so that no domain falls apart into bytes, some generated pairs of each."""
    chosen = [domain for domain in DOMAINS.values() if not domain.needs_own_answers]
    num, seed = training["num_tokenizer_pairs_per_domain"], training["training_seed"]
    generated = (pair for domain in chosen for pair in domain.examples("train", num=num, seed=seed))
    for example in (*answers, *generated):
        yield example.prompt
        yield example.answer


def new_qwen2(tokenizer: Any, training: Mapping[str, Any]) -> Any:
    """Return a float32 Qwen2 model at its random start, embeddings tied."""
    from transformers import Qwen2Config, Qwen2ForCausalLM

    shape = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    config = Qwen2Config(
        vocab_size=len(tokenizer),
        **{key: training[key] for key in shape},
        max_position_embeddings=training["max_position_embeddings"],
        tie_word_embeddings=True,
        eos_token_id=tokenizer.eos_token_id,
        pad_token_id=tokenizer.pad_token_id,
        dtype=torch.float32,
    )
    model = Qwen2ForCausalLM(config)
    model.generation_config.eos_token_id = [tokenizer.eos_token_id, tokenizer.pad_token_id]
    return model


def _answer_logits(model: Any, batch: Batch) -> tuple[torch.Tensor, torch.Tensor]:
    """Return float32 logits (num_scored, vocab_size) and the tokens that follow there (num_scored,)."""
    with quick_autocast():
        hidden = model.model(input_ids=batch.token_ids, use_cache=False).last_hidden_state[batch.is_scored]
        logits = model.lm_head(hidden).float()
    return logits, batch.token_ids.roll(-1, dims=1)[batch.is_scored]


def answer_loss(model: Any, batch: Batch) -> tuple[torch.Tensor, int, int]:
    """Return the mean loss in nats per answer token, the tokens ranked first, and the tokens."""
    logits, labels = _answer_logits(model, batch)
    return cross_entropy(logits, labels), int((logits.argmax(-1) == labels).sum()), len(labels)


@torch.no_grad()
def held_out_scores(model: Any, batches: Sequence[Batch]) -> dict[str, float]:
    """Return loss and top-1 accuracy per answer token on held-out answers, pooled over batches."""
    scores = [answer_loss(model, batch) for batch in batches]
    num_tokens = sum(num for _, _, num in scores)
    return {
        "held_out_loss_nats": sum(float(loss) * num for loss, _, num in scores) / num_tokens,
        "held_out_accuracy": sum(right for _, right, _ in scores) / num_tokens,
    }
