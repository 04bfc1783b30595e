"""The ``base_profile`` block of ``models.yaml``: how much is recorded of a base target, once for all adapters."""

from typing import Annotated

from pydantic import Field, StrictInt

from lora_spec.config.fields import ConfigModel, NumPrompts, PositiveCount, Seed


class BaseProfileConfig(ConfigModel):
    """How much is recorded; its size in bytes grows with positions x pairs, and with directions."""

    num_prompts: NumPrompts = Field(
        description="Prompts read of each domain of the common fit prompts: more texts, positions less alike."
    )
    max_tokens: PositiveCount = Field(
        description="Cap on output tokens per prompt; at most the prompts' own, so that texts are those served."
    )
    num_positions: PositiveCount = Field(
        description="Output positions whose margin is differentiated: shares of flips are known to one in this many."
    )
    num_pairs: Annotated[StrictInt, Field(ge=1, le=256)] = Field(
        description="Products g x' kept of each margin's gradient per module; more hold more of what earlier tokens do."
    )
    num_directions: Annotated[StrictInt, Field(ge=1, le=65536)] = Field(
        description="Eigenvectors kept of each input's second moment; the rest of its trace counts as isotropic."
    )
    seed: Seed = Field(description="Seed of the choice of positions.")
