"""What the effect rule is computed from, gathered from a tier's files: for the workflow and for a person at a shell."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from lora_spec.config.tier import Tier


def effect_settings(tier: "Tier", names: Sequence[str]) -> dict[str, Any]:
    """Return the rule, the stratum of every named adapter and the depth of the live confirmation, as plain data."""
    phase1, gate = tier.phase1_measurement, tier.gate
    rule = {
        **phase1.effect_gate.to_dict(),
        "num_speculative_tokens": gate.standing_num_speculative_tokens,
        "candidate_depths": list(gate.candidate_depths),
        **{key: getattr(phase1, key) for key in ("min_drafts", "level", "num_bootstrap_draws", "seed")},
    }
    strata = {name: tier.adapter_pool.find(name).stratum for name in sorted(names)}
    return {"rule": rule, "strata": strata, "live_depth": phase1.num_speculative_tokens}
