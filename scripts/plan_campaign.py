"""Print what a tier will take on a cluster: rules, jobs, GPU hours, CPU hours and disk, from the declared resources.

Nothing is run, fetched or submitted: neither Slurm nor a GPU nor weights are needed. Hours are limits, not estimates.
Of the adapters that are made again for the second pair, which a checkpoint of the run will name, as many are counted as
it will choose.
"""

import argparse
from pathlib import Path

from lora_spec.cli.campaign_plan import plan_jobs, plan_lines
from lora_spec.cli.output import say
from lora_spec.cli.script import existing_folder, run_script, tier_name
from lora_spec.config import load_tier


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    pool = load_tier(Path(), args.tier).adapter_pool
    num_again = 0 if pool.confirm_pool is None else pool.confirm_pool.num_adapters
    again = [f"results/{args.tier}/confirm/adapters/{name}" for name in pool.remade[:num_again]]
    jobs = plan_jobs(
        "--forceall", "--nolock", "--cores", "1000", "--workflow-profile", str(args.profile),
        "--config", f"tier={args.tier}", "measurements=fresh", "--", *args.targets, *again,
    )  # fmt: skip
    say("\n".join(plan_lines(jobs)))


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--tier", type=tier_name, default="paper", help="tier to plan (default: %(default)s)")
parser.add_argument(
    "--profile", type=existing_folder, default=Path("profiles/slurm"), help="profile to plan for (default: %(default)s)"
)
parser.add_argument(
    "--targets", nargs="+", default=["all", "step_cost", "stress"], help="what is asked for (default: %(default)s)"
)

if __name__ == "__main__":
    run_script(parser, main)
