"""Soak a real server: mixed traffic, policies and adapters that change, broken files and hang-ups, for an hour.

First the server is brought to its working set (every adapter, steps of all sizes, the whole key-value cache); memory is
judged from then on. Writes one JSON result, anew after every round, and one line per round to stderr. Exit code 0 where
nothing failed, nothing leaked and memory stayed flat, 1 where not. It takes the machine's lock. Needs the serving
environment, and tcmalloc (apt install libtcmalloc-minimal4): on glibc's heap memory creeps without any leak.
"""

import argparse
import sys
from pathlib import Path

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.output import tell
from lora_spec.cli.script import EXIT_FAILED_RUN, existing_folder, named_path, positive_number, run_script
from lora_spec.cli.soak import SoakFolders, soak_tier
from lora_spec.config import tier_holding
from lora_spec.measurement.campaign import named_folders


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config, "traffic")
    folders = SoakFolders(args.target, args.drafter, named_folders(args.adapters))
    output = args.output or by_hand(tier.name, "soak") / "soak.json"
    verdict = soak_tier(
        tier,
        folders,
        duration_s=args.duration_s,
        round_s=args.round_s,
        settle_s=args.settle_s,
        max_slope_mib_per_hour=args.max_slope_mib_per_hour,
        output=output,
    )
    tell(f"{'passed' if verdict['is_passed'] else 'FAILED'} after {verdict['num_rounds']} rounds: {output}")
    for problem in verdict["problems"][:10]:
        tell(f"  {problem}")
    if not verdict["is_passed"]:
        sys.exit(EXIT_FAILED_RUN)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--config", type=Path, required=True, help="traffic.yaml in its tier's folder")
parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, required=True, help="model folder of the drafter")
parser.add_argument("--adapters", type=named_path, nargs="+", required=True, help="NAME=FOLDER of rows of the pool")
parser.add_argument("--duration-s", type=positive_number, default=3600.0, help="length, s (default: %(default)s)")
parser.add_argument("--round-s", type=positive_number, default=30.0, help="length of a round, s (default: %(default)s)")
parser.add_argument("--settle-s", type=positive_number, default=600.0, help="settling, s (default: %(default)s)")
parser.add_argument(
    "--max-slope-mib-per-hour",
    type=positive_number,
    default=64.0,
    help="growth of memory that passes for none (default: 64)",
)
parser.add_argument("--output", type=Path, help="where the result goes (default: results/TIER/by_hand/soak/soak.json)")

if __name__ == "__main__":
    run_script(parser, main)
