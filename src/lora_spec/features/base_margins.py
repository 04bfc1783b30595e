"""Columns of the first-order change of the base's margins: which of its choices an update would overturn.

A position flips where margin + change < 0. Greedy drafts are accepted where the drafter's first choice is the target's,
so a flip costs an accepted draft where the drafter agreed, and gains one where it had drafted the second-best token.
Tokens beyond the two best are left out, and an update large enough to flip much is beyond its first order.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lora_spec.base_trace import BEST, SECOND
from lora_spec.features.base_profile import BaseProfile
from lora_spec.features.columns import BaseMarginColumns
from lora_spec.features.families import THIRDS
from lora_spec.features.ladder import log_norm
from lora_spec.features.on_base import UpdateOnBase

Array = NDArray[np.float64]
_SMALLEST_MARGIN = 1e-3
"""Logits; a smaller margin is within the rounding of bfloat16 logits, and a ratio to it says nothing."""


def base_margin_columns(updates: Sequence[UpdateOnBase], profile: BaseProfile) -> BaseMarginColumns:
    """Return the columns of one adapter from its updates on the base."""
    margins, choices = profile.margins.astype(np.float64), profile.drafter_choices
    changes = _total(updates, margins)
    flips = margins + changes < 0
    ratios = changes / np.maximum(margins, _SMALLEST_MARGIN)
    accepted = np.where(flips, choices == SECOND, choices == BEST)
    low, middle, high = np.quantile(ratios, (0.1, 0.5, 0.9))
    columns = {
        "base_margin_flip_share": float(flips.mean()),
        "base_margin_flip_share_agreed": _share(flips[choices == BEST]),
        "base_margin_predicted_agreement": float(accepted.mean()),
        "base_margin_unsettled_share": float((np.abs(changes) > margins).mean()),
        "base_margin_mean_change": float(changes.mean()),
        "base_margin_log_rms_change": _log_rms(changes),
        "base_margin_ratio_p10": float(low),
        "base_margin_ratio_p50": float(middle),
        "base_margin_ratio_p90": float(high),
    }
    for third in THIRDS:
        held = [u for u in updates if u.third == third]
        columns[f"base_margin_log_rms_change_{third}"] = _log_rms(_total(held, margins))
    return BaseMarginColumns(columns)


def _total(updates: Sequence[UpdateOnBase], margins: Array) -> Array:
    return sum((u.margin_changes for u in updates), start=np.zeros(len(margins)))


def _log_rms(changes: Array) -> float:
    largest = float(np.abs(changes).max())
    return log_norm(largest * float(np.sqrt(np.mean((changes / largest) ** 2))) if largest else 0.0)


def _share(flags: NDArray[np.bool_]) -> float:
    return float(flags.mean()) if flags.size else 0.0
