"""Screen the pool on the primary pair: acceptance per draft position for every adapter, and the table of it.

Plans by default, as phase1_collect.py does; --execute measures, adapter by adapter, and goes on where it was stopped.
Adapters that are measured already (a pilot's) are not measured again: name them in --measured for the table.
"""

import argparse
from pathlib import Path

from lora_spec.cli.campaigns import campaign_parser, output_dir_of, plan_or_collect
from lora_spec.cli.script import run_script
from lora_spec.config import tier_holding
from lora_spec.measurement.screen_table import read_screened, write_screen_table
from lora_spec.measurement.tier_campaign import campaign_of


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config, "phase1_measurement")
    campaign = campaign_of(tier, names=args.names)
    # Before hours of measuring, not after.
    read_screened(args.measured, tier, to_come=[row["name"] for row in campaign.rows])
    if plan_or_collect(args, tier, campaign, plan_kind="phase2_screen_plan"):
        screened = [output_dir_of(args, tier) / f"{row['name']}.parquet" for row in campaign.rows]
        write_screen_table(args.table or output_dir_of(args, tier) / "screen.json", [*args.measured, *screened], tier)


parser = campaign_parser(__doc__, step="phase2_screen")
parser.add_argument("--names", nargs="*", help="only these adapters of the pool (default: all)")
parser.add_argument("--measured", type=Path, nargs="*", default=[], help="records of adapters measured before")
parser.add_argument("--table", type=Path, help="acceptance by position, JSON (default: screen.json beside the records)")

if __name__ == "__main__":
    run_script(parser, main)
