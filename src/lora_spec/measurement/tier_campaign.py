"""The acceptance campaign that a tier's config files describe."""

from collections.abc import Collection
from dataclasses import replace

from lora_spec.config import Tier
from lora_spec.errors import ConfigError
from lora_spec.joins import by_adapter
from lora_spec.measurement.campaign import Campaign
from lora_spec.training.frozen_prompts import FrozenPrompts, freeze_prompts


def campaign_of(tier: Tier, *, names: Collection[str] | None = None, is_live: bool = False) -> Campaign:
    """Return the campaign of a tier, of all adapters or of the named ones.

    Parameters
    ----------
    is_live
        The confirmation by live counters with LoRA on: fewer prompts, of the adapter's own traffic only.

    Raises
    ------
    ConfigError
        A name is not in the pool, or the prompts differ from their frozen hashes.
    """
    pool = tier.adapter_pool
    by_adapter(names or (), str, what="names given")
    if unknown := sorted(set(names or ()) - set(pool.names)):
        raise ConfigError(f"{tier.path_of('adapter_pool')}: no adapter {unknown[0]!r}; it has {', '.join(pool.names)}")
    rows = tuple(pool.find(name).to_dict() for name in pool.names if names is None or name in names)
    frozen = freeze_prompts(tier.prompts.to_dict()["sets"])
    campaign = Campaign(
        rows=rows,
        phase1=tier.phase1_measurement.to_dict(),
        prompts=tuple(FrozenPrompts.from_dict(item) for item in frozen),
        engine=tier.models.engine.to_dict(),
        pair=tier.models.primary.to_dict(),
    )
    return confirmed_live(campaign) if is_live else campaign


def confirm_campaign_of(tier: Tier, *, names: Collection[str]) -> Campaign:
    """Return the campaign of some adapters' counterparts on the tier's second pair, same prompts and settings.

    The second pair has no early drafter unless the config gives it one; it is then not replayed.

    Raises
    ------
    ConfigError
        The tier has no second pair, or a name is not in the pool or cannot be made again.
    """
    pair = tier.models.confirm
    if pair is None:
        raise ConfigError(f"{tier.path_of('models')}: confirm is null; name a second pair to confirm on")
    if strange := sorted(set(names) & set(tier.adapter_pool.names) - set(tier.adapter_pool.remade)):
        raise ConfigError(
            f"{tier.path_of('adapter_pool')}: {strange[0]!r} has no recipe for another target, or is a control"
        )
    campaign = campaign_of(tier, names=names)
    rows = tuple(tier.adapter_pool.find(row["name"]).made_again().to_dict() for row in campaign.rows)
    counting = campaign.phase1["counting"]
    drafters = [name for name in counting["drafters"] if name != "early" or pair.early_drafter is not None]
    phase1 = {**campaign.phase1, "counting": {**counting, "drafters": drafters}}
    return replace(campaign, rows=rows, phase1=phase1, pair=pair.to_dict())


def confirmed_live(campaign: Campaign) -> Campaign:
    """Return the same campaign with LoRA on and live counters, on the first prompts of every adapter's own traffic."""
    counting = {**campaign.phase1["counting"], "weights": "lora", "drafters": ["final"]}
    num_prompts = counting["num_live_prompts"]
    prompts = tuple(replace(p, prompts=p.prompts[:num_prompts]) for p in campaign.prompts if p.prompt_set == "own")
    return replace(campaign, phase1={**campaign.phase1, "counting": counting}, prompts=prompts, is_own_only=True)
