"""Trains one LoRA adapter from one row of the pool, the same bytes for the same row on the same machine."""

import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Any

from lora_spec.errors import TrainingError
from lora_spec.provenance import sha256_of_json
from lora_spec.training.adapter_files import config_json, lora_config, write_adapter
from lora_spec.training.batches import Batch, EncodedPair, encode_pair, shuffled_batches
from lora_spec.training.domains import Example, find_domain
from lora_spec.training.own_answers import OwnAnswers
from lora_spec.training.quick import Device, quick_autocast, quick_dtype
from lora_spec.training.recipe import AdapterRecipe
from lora_spec.training.task_score import TaskScore, answer_logits, score_task

# Steps over which the learning rate rises, as a share of all; it then falls linearly to zero.
_WARMUP_SHARE = 0.05
_MAX_GRADIENT_NORM = 1.0


@dataclass(frozen=True)
class TrainedAdapter:
    """What a training run gave, beside the files it wrote."""

    out_dir: Path
    loss_nats_per_step: tuple[float, ...]
    score_before: TaskScore
    score_after: TaskScore


@contextmanager
def _repeatable(seed: int, num_threads: int) -> Iterator[None]:
    # cuBLAS reads it when it is first used, and adds up in any order without it; torch refuses that when deterministic.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    import torch

    was_deterministic, num_threads_before = torch.are_deterministic_algorithms_enabled(), torch.get_num_threads()
    torch.manual_seed(seed)
    torch.use_deterministic_algorithms(True)
    # Deterministic mode also writes NaN over all new memory, to show up code that reads it: a tenth of the time here.
    fills_memory, torch.utils.deterministic.fill_uninitialized_memory = (
        torch.utils.deterministic.fill_uninitialized_memory,
        False,
    )
    # Sums are split by thread, so their number is part of what decides the last bits.
    torch.set_num_threads(num_threads)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic)
        torch.utils.deterministic.fill_uninitialized_memory = fills_memory
        torch.set_num_threads(num_threads_before)


def _relative_rate(step: int, num_steps: int) -> float:
    num_warmup = max(1, round(_WARMUP_SHARE * num_steps))
    return min((step + 1) / num_warmup, (num_steps - step) / max(1, num_steps - num_warmup))


def _parameter_groups(model: Any, row: AdapterRecipe) -> list[dict[str, Any]]:
    """Return A and B as two groups of the optimiser, B's rate ``lora_plus_ratio`` times A's.

    References: Hayou et al. 2024, "LoRA+: Efficient Low Rank Adaptation of Large Models".
    """
    trained = {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}
    b_factors = [parameter for name, parameter in trained.items() if ".lora_B." in name]
    a_factors = [parameter for name, parameter in trained.items() if ".lora_B." not in name]
    return [
        {"params": a_factors, "lr": row.learning_rate},
        {"params": b_factors, "lr": row.learning_rate * row.lora_plus_ratio},
    ]


def _fit(model: Any, batches: Iterator[Batch], row: AdapterRecipe) -> list[float]:
    import torch
    from torch.nn.functional import cross_entropy

    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
    optimizer = torch.optim.AdamW(_parameter_groups(model, row), lr=row.learning_rate, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: _relative_rate(step, row.num_steps))
    losses = []
    for batch in (batch.to(model.device) for batch in batches):
        with quick_autocast(model.device.type):
            loss = cross_entropy(answer_logits(model.get_base_model(), batch), batch.labels)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, _MAX_GRADIENT_NORM)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    if not all(loss == loss and loss < float("inf") for loss in losses):
        raise TrainingError(f"adapter '{row.name}': the loss left the numbers; lower learning_rate {row.learning_rate}")
    return losses


def _checked_domain(row: AdapterRecipe) -> Any:
    domain = find_domain(row.domain)
    # What a target writes is under that target's licence, which no domain knows and the row states.
    if not domain.needs_own_answers and domain.license != row.license:
        raise TrainingError(
            f"adapter row '{row.name}': license '{row.license}' differs from '{domain.license}', the licence of "
            f"domain '{row.domain}'; state the domain's"
        )
    return domain


def train_lora(
    target_dir: Path,
    row: AdapterRecipe,
    out_dir: Path,
    *,
    base_model_name: str,
    own_answers: OwnAnswers,
    num_threads: int,
    max_tokens: int = 160,
    num_eval_pairs: int = 48,
    device: Device = "cpu",
) -> TrainedAdapter:
    """Train the adapter of one row with the loss on the answers alone, and write it to ``out_dir``.

    Weights are float32, multiplied in :func:`~lora_spec.training.quick.quick_dtype`; the adapter is stored in bf16.
    Each training pair is seen once.

    Parameters
    ----------
    base_model_name
        What ``adapter_config.json`` calls the base: a plain name, not a path of this machine.
    own_answers
        Read only where the domain rewrites the target's own answers.
    num_threads
        Threads of torch; part of what decides the last bits of the result.
    max_tokens
        Longest pair, prompt included; longer answers are cut.
    device
        Where it is trained; another device rounds otherwise and gives another adapter.

    Raises
    ------
    TrainingError
        On an unknown domain, another licence than the domain's, too few own answers, or a loss that diverges.
    """
    import torch
    from peft import get_peft_model, get_peft_model_state_dict
    from transformers import AutoModelForCausalLM, AutoTokenizer

    domain = _checked_domain(row)
    num_pairs = row.num_steps * row.batch_size
    pairs = domain.examples("train", num=num_pairs, seed=row.seed, own_answers=own_answers.train)
    held_out = domain.examples("eval", num=num_eval_pairs, seed=row.seed, own_answers=own_answers.held_out)

    tokenizer = AutoTokenizer.from_pretrained(target_dir)
    pad = tokenizer.pad_token_id

    def encode(examples: Sequence[Example]) -> list[EncodedPair]:
        return [encode_pair(example, tokenizer=tokenizer, max_tokens=max_tokens) for example in examples]

    encoded, encoded_held_out = encode(pairs), encode(held_out)
    with _repeatable(row.seed, num_threads):
        base = AutoModelForCausalLM.from_pretrained(target_dir, dtype=torch.float32).to(device)
        config = lora_config(row)
        model = get_peft_model(base, config)
        before = score_task(base, encoded_held_out, batch_size=row.batch_size, pad_token_id=pad)
        batches = shuffled_batches(encoded, batch_size=row.batch_size, seed=row.seed, pad_token_id=pad)
        losses = _fit(model, batches, row)
        after = score_task(base, encoded_held_out, batch_size=row.batch_size, pad_token_id=pad)
        tensors = get_peft_model_state_dict(model)
    recipe = {
        "row": row.to_dict(),
        "license": row.license,
        "domain_description": domain.description,
        "training_pairs_sha256": sha256_of_json([[pair.prompt, pair.answer] for pair in pairs]),
        "max_tokens": max_tokens,
        "num_threads": num_threads,
        "device": device,
        "compute_dtype": str(quick_dtype(device)).removeprefix("torch."),
        "versions": {name: metadata.version(name) for name in ("torch", "transformers", "peft")},
        "loss_nats_first_step": losses[0],
        "loss_nats_last_step": losses[-1],
        "loss_nats_per_step": [round(loss, 4) for loss in losses],
        "held_out_before": before.to_dict(),
        "held_out_after": after.to_dict(),
    }
    write_adapter(out_dir, tensors=tensors, config=config_json(config, base_model_name), recipe=recipe)
    return TrainedAdapter(out_dir, tuple(losses), before, after)
