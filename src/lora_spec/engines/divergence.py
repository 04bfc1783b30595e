"""How far the next-token distributions of three readers lie apart, position by position. Imports torch when called.

The readers are the adapted target, the base target and the drafter, on the same text. All is computed from logits, so
a constant added to the logits of a position changes nothing.

References: Kullback and Leibler 1951; Lin 1991, "Divergence measures based on the Shannon entropy" (Jensen-Shannon, at
most ln 2 nats); Leviathan et al. 2023, corollary 3.6 (overlap = acceptance under sampling).
"""

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor


def kl_divergence(log_p: "Tensor", log_q: "Tensor") -> "Tensor":
    """Return KL(p || q) = sum p (log p - log q) in nats over the last axis, at least 0."""
    # Rounding alone can take the sum below zero.
    return (log_p.exp() * (log_p - log_q)).sum(dim=-1).clamp(min=0)


def js_divergence(log_p: "Tensor", log_q: "Tensor") -> "Tensor":
    """Return JS(p, q) = (KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2, in nats, in [0, ln 2]."""
    gap = log_q - log_p
    return ((_kl_to_middle(log_p, gap) + _kl_to_middle(log_q, -gap)) / 2).clamp(min=0, max=math.log(2))


def _kl_to_middle(log_p: "Tensor", gap: "Tensor") -> "Tensor":
    """Return KL(p || (p + q) / 2) with gap = log q - log p: log p - log m = ln 2 - log(1 + q / p), 0 where p = q."""
    import torch

    return (log_p.exp() * (math.log(2) - torch.nn.functional.softplus(gap))).sum(dim=-1)


def entropy(log_p: "Tensor") -> "Tensor":
    """Return H(p) = -sum p log p in nats over the last axis."""
    return -(log_p.exp() * log_p).sum(dim=-1)


def overlap(log_p: "Tensor", log_q: "Tensor") -> "Tensor":
    """Return sum min(p, q) = 1 - total variation over the last axis, in [0, 1]."""
    import torch

    return torch.minimum(log_p, log_q).exp().sum(dim=-1).clamp(max=1)


def compare_readers(
    adapted: "Tensor", base: "Tensor", drafter: "Tensor", token_ids: Sequence[int]
) -> dict[str, tuple[float, ...]]:
    """Return every signal of :mod:`lora_spec.calibration_record` at every position of a text.

    Parameters
    ----------
    adapted, base, drafter
        Logits that each token was, or would have been, chosen from, shape ``(num_positions, vocab_size)``. Half
        precision is widened to float32, float64 is kept. A drafter whose vocabulary is padded further is cut.
    token_ids
        The text's own tokens, ``num_positions`` of them.
    """
    import torch

    vocab_size = min(logits.shape[-1] for logits in (adapted, base, drafter))
    log_a, log_b, log_d = (_log_probs(logits[:, :vocab_size]) for logits in (adapted, base, drafter))
    said = torch.tensor(list(token_ids))
    first_a, first_b, first_d = (logits[:, :vocab_size].argmax(dim=-1) for logits in (adapted, base, drafter))
    signals = {
        "kl_base_nats": kl_divergence(log_a, log_b),
        "js_base_nats": js_divergence(log_a, log_b),
        "kl_drafter_nats": kl_divergence(log_a, log_d),
        "js_drafter_nats": js_divergence(log_a, log_d),
        "overlap_drafter": overlap(log_a, log_d),
        "overlap_base_drafter": overlap(log_b, log_d),
        "is_adapted_first": first_a == said,
        "is_base_first": first_b == said,
        "is_drafter_first": first_d == said,
        "is_drafter_base_first": first_d == first_b,
    }
    for name, log_p in (("adapted", log_a), ("base", log_b), ("drafter", log_d)):
        signals[f"entropy_{name}_nats"] = entropy(log_p)
        signals[f"surprisal_{name}_nats"] = -log_p.gather(1, said.unsqueeze(1)).squeeze(1)
    return {name: tuple(values.float().tolist()) for name, values in signals.items()}


def _log_probs(logits: "Tensor") -> "Tensor":
    import torch

    wide = logits if logits.dtype == torch.float64 else logits.float()
    return torch.log_softmax(wide, dim=-1)
