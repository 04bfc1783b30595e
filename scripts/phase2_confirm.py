"""Confirm predicted extremes, and a random part of the rest, on the tier's second pair of models.

Which adapters is a rule on the predictions alone (confirm_pool in adapter_pool.yaml). Plans by default: the plan names
the adapters that are to be made again for the second target. --execute measures them there, adapter by adapter, and
goes on where it was stopped.
"""

import argparse
from dataclasses import asdict
from pathlib import Path

from lora_spec.cli.campaigns import campaign_parser, plan_or_collect
from lora_spec.cli.script import run_script
from lora_spec.config import tier_holding
from lora_spec.gate.confirming import choose_confirmed
from lora_spec.measurement.tier_campaign import confirm_campaign_of


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config, "phase1_measurement")
    chosen = choose_confirmed(args.predictions, tier)
    campaign = confirm_campaign_of(tier, names=[item.adapter for item in chosen])
    extras = {"chosen": [asdict(item) for item in chosen]}
    plan_or_collect(args, tier, campaign, plan_kind="phase2_confirm_plan", plan_extras=extras)


parser = campaign_parser(__doc__, step="phase2_confirm")
parser.add_argument("--predictions", type=Path, required=True, help="held-out predictions of the primary pair, JSON")

if __name__ == "__main__":
    run_script(parser, main)
