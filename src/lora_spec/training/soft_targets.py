"""Distillation loss over the target's most likely tokens, without ever holding all logits of a batch.

The corpus uses about a quarter of the vocabulary. Logits of its tokens are computed exactly; those of all other
tokens are represented by a fresh random sample, reweighted, which keeps them down at a quarter of the cost
(importance sampling of the partition function, Bengio and Senecal 2008).
"""

import math
from typing import Any

import numpy as np
import torch

CHUNK_POSITIONS = 1024
"""Positions whose logits exist at one time: 1024 x 16,000 floats are 64 MB."""


class CorpusVocabulary:
    """The rows of the output head that the corpus needs, with sampled rows for the rest.

    Parameters
    ----------
    head
        (vocab_size, hidden_size) frozen output embeddings.
    corpus_token_ids
        Every token of the corpus, in any shape.
    num_sampled
        How many other tokens to draw afresh per step.
    """

    def __init__(self, head: torch.Tensor, corpus_token_ids: np.ndarray, *, num_sampled: int, seed: int) -> None:
        used = np.zeros(head.shape[0], dtype=bool)
        used[corpus_token_ids] = True
        self.token_ids = torch.from_numpy(np.flatnonzero(used))
        self._others = torch.from_numpy(np.flatnonzero(~used))
        self._head = head
        self._num_sampled = min(num_sampled, len(self._others))
        self._random = torch.Generator().manual_seed(seed)
        self.head = head[self.token_ids].contiguous()

    def sampled_head(self) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (rows, logit offsets): the corpus rows, then sampled rows standing for all other tokens.

        A sampled row's offset is log(num_others / num_sampled), so that the expected partition function is exact.
        """
        drawn = self._others[torch.randperm(len(self._others), generator=self._random)[: self._num_sampled]]
        rows = torch.cat([self.head, self._head[drawn]])
        offsets = torch.zeros(len(rows))
        if self._num_sampled:
            offsets[len(self.head) :] = math.log(len(self._others) / self._num_sampled)
        return rows, offsets


class SparseTargetCrossEntropy(torch.autograd.Function):
    """Cross entropy of a frozen linear head against sparse soft targets, gradient made in the forward pass.

    With logits z = h W' and a target distribution p that is zero outside its top k entries,
    loss = mean_i [logsumexp(z_i) - sum_k p_ik z_ik] and d loss / d z_i = (softmax(z_i) - p_i) / n.
    Minimising it is minimising KL(p || softmax(z)), since the entropy of p is constant
    (Hinton et al. 2015, section 2). The head W is frozen, so only the gradient for h is needed and the logits of
    a chunk can be dropped at once.
    """

    @staticmethod
    def forward(  # type: ignore[override]
        ctx: Any,
        hidden: torch.Tensor,
        head: torch.Tensor,
        offsets: torch.Tensor,
        token_ids: torch.Tensor,
        probs: torch.Tensor,
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Return (mean loss, number of positions whose argmax is the target's argmax).

        Parameters
        ----------
        hidden
            (num_positions, hidden_size), any float type.
        head
            (num_rows, hidden_size), frozen.
        offsets
            (num_rows,) added to the logits.
        token_ids, probs
            (num_positions, k): rows of the target's most likely tokens, best first, and their probabilities (sum 1).
        """
        num_positions = hidden.shape[0]
        grad_hidden = torch.empty_like(hidden)
        total, num_agreeing = 0.0, 0
        for start in range(0, num_positions, CHUNK_POSITIONS):
            part = slice(start, start + CHUNK_POSITIONS)
            logits = (hidden[part].to(head.dtype) @ head.T).float().add_(offsets)
            num_agreeing += int((logits.argmax(-1) == token_ids[part, 0]).sum())
            normaliser = logits.logsumexp(-1, keepdim=True)
            total += float((normaliser.squeeze(-1) - (logits.gather(-1, token_ids[part]) * probs[part]).sum(-1)).sum())
            gradient = logits.sub_(normaliser).exp_()
            gradient.scatter_add_(-1, token_ids[part], -probs[part])
            grad_hidden[part] = (gradient.to(head.dtype) @ head).to(hidden.dtype) / num_positions
        ctx.save_for_backward(grad_hidden)
        ctx.mark_non_differentiable(agreeing := torch.tensor(num_agreeing))
        return torch.tensor(total / num_positions), agreeing

    @staticmethod
    def backward(ctx: Any, grad_loss: torch.Tensor, _: torch.Tensor) -> tuple[torch.Tensor, None, None, None, None]:  # type: ignore[override]
        """Scale the gradient that the forward pass has made."""
        (grad_hidden,) = ctx.saved_tensors
        return grad_hidden * grad_loss, None, None, None, None


@torch.no_grad()
def top_k_targets(hidden: torch.Tensor, head: torch.Tensor, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return the rows of the k most likely tokens per position and their renormalised probabilities, best first."""
    token_ids, probs = [], []
    for part in hidden.split(CHUNK_POSITIONS):
        logits = (part.to(head.dtype) @ head.T).float()
        best = logits.topk(k, dim=-1)
        token_ids.append(best.indices)
        probs.append(best.values.softmax(-1))
    return torch.cat(token_ids), torch.cat(probs)
