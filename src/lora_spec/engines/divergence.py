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


class Distribution:
    """Next-token distributions, shape ``(num_positions, vocab_size)``: p and log p, since both are needed often.

    Half precision is widened to float32, float64 is kept.
    """

    def __init__(self, logits: "Tensor") -> None:
        import torch

        wide = logits if logits.dtype == torch.float64 else logits.float()
        self.log_p = torch.log_softmax(wide, dim=-1)
        self.p = self.log_p.exp()

    def entropy(self) -> "Tensor":
        """Return H(p) = -sum p log p in nats."""
        return -(self.p * self.log_p).sum(dim=-1)

    def surprisal(self, token_ids: "Tensor") -> "Tensor":
        """Return -log p of one token per position, in nats."""
        return -self.log_p.gather(1, token_ids.unsqueeze(1)).squeeze(1)


def kl_divergence(p: Distribution, q: Distribution) -> "Tensor":
    """Return KL(p || q) = sum p (log p - log q) in nats, at least 0."""
    # Rounding alone can take the sum below zero.
    return (p.p * (p.log_p - q.log_p)).sum(dim=-1).clamp(min=0)


def js_divergence(p: Distribution, q: Distribution) -> "Tensor":
    """Return JS(p, q) = (KL(p || m) + KL(q || m)) / 2 with m = (p + q) / 2, in nats, in [0, ln 2].

    With x = log q - log p: log p - log m = ln 2 - softplus(x) and log q - log m = that + x, both exactly 0 where p = q.
    """
    from torch.nn.functional import softplus

    gap = q.log_p - p.log_p
    above_middle = math.log(2) - softplus(gap)
    return ((p.p * above_middle + q.p * (above_middle + gap)).sum(dim=-1) / 2).clamp(min=0, max=math.log(2))


def overlap(p: Distribution, q: Distribution) -> "Tensor":
    """Return sum min(p, q) = 1 - total variation, in [0, 1]."""
    import torch

    return torch.minimum(p.p, q.p).sum(dim=-1).clamp(max=1)


def compare_readers(
    adapted: "Tensor", base: "Tensor", drafter: "Tensor", token_ids: Sequence[int]
) -> dict[str, tuple[float, ...]]:
    """Return every signal of :mod:`lora_spec.calibration_record` at every position of a text.

    Parameters
    ----------
    adapted, base, drafter
        Logits that each token was, or would have been, chosen from, shape ``(num_positions, vocab_size)``. A drafter
        whose vocabulary is padded further is cut.
    token_ids
        The text's own tokens, ``num_positions`` of them.
    """
    import torch

    vocab_size = min(logits.shape[-1] for logits in (adapted, base, drafter))
    adapted, base, drafter = (logits[:, :vocab_size] for logits in (adapted, base, drafter))
    a, b, d = readers = [Distribution(logits) for logits in (adapted, base, drafter)]
    said = torch.tensor(list(token_ids))
    # From the logits, as in replay: rounding of a logarithm could make a tie of two near ones.
    first_a, first_b, first_d = (logits.argmax(dim=-1) for logits in (adapted, base, drafter))
    signals = {
        "kl_base_nats": kl_divergence(a, b),
        "js_base_nats": js_divergence(a, b),
        "kl_drafter_nats": kl_divergence(a, d),
        "js_drafter_nats": js_divergence(a, d),
        "overlap_drafter": overlap(a, d),
        "overlap_base_drafter": overlap(b, d),
        "is_adapted_first": first_a == said,
        "is_base_first": first_b == said,
        "is_drafter_first": first_d == said,
        "is_drafter_base_first": first_d == first_b,
    }
    for name, reader in zip(("adapted", "base", "drafter"), readers, strict=True):
        signals[f"entropy_{name}_nats"] = reader.entropy()
        signals[f"surprisal_{name}_nats"] = reader.surprisal(said)
    return {name: tuple(values.float().tolist()) for name, values in signals.items()}
