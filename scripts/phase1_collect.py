"""Collect paired acceptance records: base and adapted target on the same prompts, adapter by adapter.

Plans by default: checks every frozen input of the config's tier and writes the plan, without importing an engine and
without downloading anything. --execute measures, and then needs the model folders and the adapters' folders. A run
that was stopped goes on with the first adapter whose record is not in --state.
"""

import argparse

from lora_spec.cli.campaigns import campaign_parser, plan_or_collect
from lora_spec.cli.script import run_script
from lora_spec.config import tier_holding
from lora_spec.measurement.tier_campaign import campaign_of


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config, "phase1_measurement")
    plan_or_collect(args, tier, campaign_of(tier, names=args.names, is_live=args.live), plan_kind="phase1_plan")


parser = campaign_parser(__doc__, step="phase1")
parser.add_argument("--live", action="store_true", help="confirm a subset by live counters with LoRA on")
parser.add_argument("--names", nargs="+", help="only these adapters of the pool (default: all)")

if __name__ == "__main__":
    run_script(parser, main)
