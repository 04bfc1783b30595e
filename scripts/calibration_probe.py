"""Probe adapters on their calibration prompts: a few short texts, read by base, adapted target and drafter.

Plans by default: checks the frozen prompts of the config's tier and writes the plan, without importing an engine and
without downloading anything. --execute probes, and then needs the model folders and the adapters' folders. A run that
was stopped goes on with the first adapter whose record is not in --state.
"""

import argparse

from lora_spec.cli.campaigns import campaign_parser, output_dir_of
from lora_spec.cli.output import tell
from lora_spec.cli.script import positive_count, run_script
from lora_spec.config import tier_holding
from lora_spec.measurement.calibration_campaign import plan_calibration
from lora_spec.measurement.calibration_store import probe_into
from lora_spec.measurement.campaign import Folders, named_folders
from lora_spec.measurement.tier_campaign import campaign_of
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config, "phase1_measurement")
    campaign = campaign_of(tier, names=args.names)
    plan = plan_calibration(campaign, num_prompts=args.num_prompts)
    output_dir = output_dir_of(args, tier)
    common = {"tier": tier.name, "provenance": collect_provenance(config=plan, seed=None)}
    if not args.execute:
        path = output_dir / "plan.json"
        write_result(path, kind="calibration_plan", evidence="contract-only", payload=plan, **common)
        tell(f"plan only ({len(plan['adapters'])} adapters, unpinned: {plan['unpinned'] or 'none'}): {path}")
        return
    folders = Folders(args.target, args.drafter, named_folders(args.adapters))
    state = args.state or output_dir
    probe_into(output_dir, campaign, folders, state_dir=state, num_prompts=args.num_prompts, **common)


parser = campaign_parser(__doc__, step="calibration", has_early_drafter=False)
parser.add_argument("--names", nargs="+", help="only these adapters of the pool (default: all)")
parser.add_argument(
    "--num-prompts", type=positive_count, help="only the first N prompts of each adapter (default: all)"
)

if __name__ == "__main__":
    run_script(parser, main)
