"""Stress policies with traffic of many adapters, on a real server.

Plans by default: writes the trials of traffic.yaml's live block, and, where results of the tier are given, which
adapters are in traffic and which depths each policy has; nothing is started. --execute runs every trial against vLLM
servers on loopback, alone on the machine, and writes one record. A run that was stopped, or whose server died, goes on
with the first trial that is not in --state. --smoke-test tries the simulator on made-up numbers, which is no evidence.
"""

import argparse
from pathlib import Path

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.live_stress import LiveInputs, live_plan_payload, run_live, write_live_record
from lora_spec.cli.output import tell
from lora_spec.cli.script import existing_folder, named_path, positive_count, run_script
from lora_spec.config import Tier, tier_holding
from lora_spec.errors import ConfigError
from lora_spec.measurement.campaign import named_folders
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result

RESULTS = ("verdicts", "measured", "cost_model", "policy")


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    if args.smoke_test:
        from lora_spec.cli.stress_files import write_smoke_stress  # draws, which the serving environment cannot

        write_smoke_stress(args.output_dir or by_hand("smoke", "phase5"), threads=args.threads)
        return
    tier = tier_holding(args.config, "traffic")
    output_dir, inputs = args.output_dir or by_hand(tier.name, "phase5"), _inputs(args, tier)
    if not args.execute:
        plan, path = live_plan_payload(tier, inputs), output_dir / "plan.json"
        common = {"tier": tier.name, "provenance": collect_provenance(config=plan["live"], seed=None)}
        write_result(path, kind="live_stress_plan", evidence="contract-only", payload=plan, **common)
        tell(f"plan only (about {plan['expected_s']:.0f} s on two cores): {path}")
        return
    if inputs is None or None in (args.target, args.drafter):
        raise ConfigError(
            "--execute needs --target, --drafter, --adapters, --verdicts, --measured, --cost-model, --policy"
        )
    folders = {"target": args.target, "drafter": args.drafter, "adapters": named_folders(args.adapters)}
    done, payload = run_live(tier, inputs, **folders, state_dir=args.state or output_dir / "state")
    write_live_record(output_dir / "live.parquet", tier, done, payload)
    tell(f"{len(done)} trials: {output_dir / 'live.parquet'}")


def _inputs(args: argparse.Namespace, tier: Tier) -> LiveInputs | None:
    given = {name: getattr(args, name) for name in RESULTS}
    if not any(given.values()):
        return None
    if missing := [name for name, value in given.items() if not value]:
        raise ConfigError(
            f"--{missing[0].replace('_', '-')} is missing; verdicts, measured, cost model and policy go together"
        )
    return LiveInputs.read(**given, tier=tier.name)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument(
    "--config",
    type=Path,
    default=Path("configs/traffic.yaml"),
    help="traffic.yaml in its tier's folder (default: %(default)s)",
)
parser.add_argument("--execute", action="store_true", help="start servers and measure")
parser.add_argument("--smoke-test", action="store_true", help="made-up numbers in the simulator; no evidence")
parser.add_argument("--target", type=existing_folder, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, help="model folder of the drafter")
parser.add_argument("--adapters", type=named_path, nargs="+", default=[], help="NAME=FOLDER for each adapter")
parser.add_argument("--verdicts", type=Path, nargs="+", help="measured verdicts, or their folder")
for flag, meaning in (
    ("--measured", "measured acceptance"),
    ("--cost-model", "cost model of the verdicts"),
    ("--policy", "policy.json made from them"),
):
    parser.add_argument(flag, type=Path, help=meaning)
parser.add_argument("--state", type=Path, help="folder where finished trials survive an interrupted run")
parser.add_argument("--threads", type=positive_count, default=1, help="processes at once (--smoke-test alone)")
parser.add_argument("--output-dir", type=Path, help="where plan or record go (default: results/TIER/by_hand/phase5)")

if __name__ == "__main__":
    run_script(parser, main)
