"""How well a model does a task: teacher-forced scores on held-out pairs."""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from lora_spec.training.batches import Batch, EncodedPair, make_batch

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class TaskScore:
    """Raw sums over held-out pairs, from which loss and shares follow.

    ``num_exact_pairs`` counts the pairs of which every answer token is the model's first choice given the
    tokens before it: these are exactly the pairs that greedy decoding reproduces. ``num_prefix_tokens`` counts
    the answer tokens that greedy decoding gets right before its first departure.
    """

    num_pairs: int
    num_exact_pairs: int
    num_answer_tokens: int
    num_correct_tokens: int
    num_prefix_tokens: int
    sum_loss_nats: float

    def to_dict(self) -> dict[str, Any]:
        """Return counts and the rates derived from them."""
        return {
            **asdict(self),
            "loss_nats_per_token": self.sum_loss_nats / self.num_answer_tokens,
            "token_accuracy": self.num_correct_tokens / self.num_answer_tokens,
            "exact_share": self.num_exact_pairs / self.num_pairs,
        }


def answer_logits(causal_model: Any, batch: Batch) -> "torch.Tensor":
    """Return float32 logits ``(num_answer_tokens, vocab)`` where an answer token is predicted, and only there."""
    hidden = causal_model.model(input_ids=batch.input_ids, attention_mask=batch.attention_mask).last_hidden_state
    return causal_model.lm_head(hidden[batch.rows, batch.columns]).float()


def score_task(causal_model: Any, pairs: Sequence[EncodedPair], *, batch_size: int, pad_token_id: int) -> TaskScore:
    """Return the scores of a model on pairs, without changing it."""
    import torch
    from torch.nn.functional import cross_entropy

    correct_by_pair: list[list[bool]] = []
    sum_loss_nats = 0.0
    with torch.no_grad():
        for start in range(0, len(pairs), batch_size):
            batch = make_batch(pairs[start : start + batch_size], pad_token_id=pad_token_id).to(causal_model.device)
            logits = answer_logits(causal_model, batch)
            sum_loss_nats += cross_entropy(logits, batch.labels, reduction="sum").item()
            is_correct = logits.argmax(dim=-1) == batch.labels
            for row in range(len(batch.input_ids)):
                correct_by_pair.append(is_correct[batch.rows == row].tolist())
    return TaskScore(
        num_pairs=len(pairs),
        num_exact_pairs=sum(all(correct) for correct in correct_by_pair),
        num_answer_tokens=sum(len(correct) for correct in correct_by_pair),
        num_correct_tokens=sum(sum(correct) for correct in correct_by_pair),
        num_prefix_tokens=sum((*correct, False).index(False) for correct in correct_by_pair),
        sum_loss_nats=sum_loss_nats,
    )
