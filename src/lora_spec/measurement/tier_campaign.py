"""The acceptance campaign that a tier's config files describe."""

from collections.abc import Collection

from lora_spec.config import Tier
from lora_spec.errors import ConfigError
from lora_spec.measurement.campaign import Campaign
from lora_spec.training.frozen_prompts import FrozenPrompts, freeze_prompts


def campaign_of(tier: Tier, *, names: Collection[str] | None = None) -> Campaign:
    """Return the campaign of a tier, of all adapters or of the named ones.

    Raises
    ------
    ConfigError
        A name is not in the pool, or the prompts differ from their frozen hashes.
    """
    pool = tier.adapter_pool
    if unknown := sorted(set(names or ()) - set(pool.names)):
        raise ConfigError(f"{tier.path_of('adapter_pool')}: no adapter {unknown[0]!r}; it has {', '.join(pool.names)}")
    rows = tuple(pool.find(name).to_dict() for name in pool.names if names is None or name in names)
    frozen = freeze_prompts(tier.prompts.to_dict()["sets"])
    return Campaign(
        rows=rows,
        phase1=tier.phase1_measurement.to_dict(),
        prompts=tuple(FrozenPrompts.from_dict(item) for item in frozen),
        engine=tier.models.engine.to_dict(),
        pair=tier.models.primary.to_dict(),
    )
