"""What drafting gains a fleet in one engine, as a sentence for people."""

from collections.abc import Sequence

from lora_spec.gate.engine_choice import DraftingGain


def gain_words(gain: DraftingGain, gains: Sequence[DraftingGain]) -> str:
    """Return what the headline load's gain says, with those of other loads beside it."""
    others = ", ".join(f"{one.goodput_ratio:.2f} at {one.batch_size}" for one in gains if one is not gain)
    told = (
        f"with a drafter and depths for the mix it makes an estimated {gain.goodput_ratio:.2f} times the tokens of one "
        f"without, at batch {gain.batch_size}{f' ({others})' if others else ''}"
    )
    if gain.num_abstained:
        told += f"; {gain.num_abstained} of {gain.num_adapters} adapters count by estimates that the gate did not trust"
    if gain.unknown_adapters:
        told += f"; {len(gain.unknown_adapters)} without any estimate are not in it"
    return told
