"""What the scripts that measure acceptance share: their flags, a plan by default, records with --execute."""

import argparse
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.output import tell
from lora_spec.cli.script import existing_folder, named_path
from lora_spec.config import Tier
from lora_spec.errors import ConfigError
from lora_spec.measurement.campaign import Campaign, Folders, named_folders, plan_campaign
from lora_spec.measurement.record_store import collect_into
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def campaign_parser(description: str | None, *, step: str, has_early_drafter: bool = True) -> argparse.ArgumentParser:
    """Return a parser with the flags of every campaign.

    Parameters
    ----------
    step
        The folder below ``results/TIER/by_hand`` where plan and records go by default.
    has_early_drafter
        Whether an early checkpoint of the drafter may replay too.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--config",
        type=Path,
        default=Path("configs/phase1_measurement.yaml"),
        help="phase1_measurement.yaml in its tier's folder (default: %(default)s)",
    )
    parser.add_argument("--execute", action="store_true", help="start the engine and measure")
    parser.add_argument("--target", type=existing_folder, help="model folder of the target")
    parser.add_argument("--drafter", type=existing_folder, help="model folder of the drafter")
    if has_early_drafter:
        parser.add_argument(
            "--early-drafter", type=existing_folder, help="folder of its early checkpoint, where that replays"
        )
    parser.add_argument("--adapters", type=named_path, nargs="+", default=[], help="NAME=FOLDER for each adapter")
    parser.add_argument("--state", type=Path, help="folder where records survive an interrupted run (default: output)")
    parser.add_argument(
        "--output-dir", type=Path, help=f"where plan or records go (default: results/TIER/by_hand/{step})"
    )
    parser.set_defaults(step=step)
    return parser


def output_dir_of(args: argparse.Namespace, tier: Tier) -> Path:
    """Return where plan and records go: the given folder, or the tier's own for what is run by hand."""
    return args.output_dir or by_hand(tier.name, args.step)


def plan_or_collect(
    args: argparse.Namespace,
    tier: Tier,
    campaign: Campaign,
    *,
    plan_kind: str,
    plan_extras: Mapping[str, Any] | None = None,
) -> bool:
    """Write the plan, or measure what is missing with ``--execute``; return whether records are there now.

    Parameters
    ----------
    plan_extras
        What the plan says beside the campaign, such as why these adapters.

    Raises
    ------
    ConfigError
        A model's folder was not given.
    MeasurementError
        A model or an adapter stands at no immutable revision, or as of
        :func:`~lora_spec.measurement.campaign.execute_campaign`.
    """
    plan = {**plan_campaign(campaign), **(plan_extras or {})}
    common = {"tier": tier.name, "provenance": collect_provenance(config=plan, seed=tier.phase1_measurement.seed)}
    output_dir = output_dir_of(args, tier)
    if not args.execute:
        path = output_dir / "plan.json"
        write_result(path, kind=plan_kind, evidence="contract-only", payload=plan, **common)
        tell(f"plan only ({len(plan['adapters'])} adapters, unpinned: {plan['unpinned'] or 'none'}): {path}")
        return False
    if None in (args.target, args.drafter) and not plan["unpinned"]:
        raise ConfigError("--execute needs --target and --drafter, the folders of the models; pass both")
    folders = Folders(args.target, args.drafter, named_folders(args.adapters), args.early_drafter)
    collect_into(output_dir, campaign, folders, state_dir=args.state or output_dir, **common)
    return True
