"""Try which engine features work together on the pinned vLLM: every combination in a process of its own.

Plans by default: checks every frozen input of the config's tier and writes the plan, without importing an engine and
without downloading anything. --execute runs the cells that the config selects and merges what they show into the
observations that are there already; it can be stopped and repeated.
"""

import argparse
from pathlib import Path

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.script import existing_folder, named_path, run_script
from lora_spec.config import tier_holding
from lora_spec.measurement.campaign import named_folders
from lora_spec.measurement.composability.execute import execute_phase0, gather_inputs
from lora_spec.measurement.composability.plan import plan_phase0
from lora_spec.measurement.composability.runner import CellRunner
from lora_spec.measurement.composability.store import ObservationStore
from lora_spec.measurement.lock import folder_lock
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config)
    plan = plan_phase0(tier)
    config = {**plan.to_dict(), "phase0_runtime": plan.config.to_dict()}
    output = args.output or by_hand(tier.name, "phase0") / "vllm_observations.json"
    if not args.execute:
        path = output.with_name("vllm_plan.json")
        provenance = collect_provenance(config=config, seed=plan.config.seed)
        write_result(
            path,
            kind="phase0_plan",
            evidence="contract-only",
            tier=tier.name,
            provenance=provenance,
            payload=plan.to_dict(),
        )
        print(
            f"plan only ({len(plan.selected)} of {len(plan.cells)} cells; unpinned: {plan.unpinned or 'none'}): {path}"
        )
        return
    inputs = gather_inputs(plan, target=args.target, drafter=args.drafter, adapters=named_folders(args.adapters))
    ids = [cell.cell_id for cell in plan.cells]
    with folder_lock(ObservationStore.folder_of(output)):
        store = ObservationStore(output, order=ids, vllm_version=plan.config.vllm_version, tier=tier.name)
        store.provenance = collect_provenance(config={**config, "sha256": dict(inputs.sha256)}, seed=plan.config.seed)
        execute_phase0(
            CellRunner(plan, inputs, store.folder),
            store,
            names=tuple(args.cells),
            is_again=args.again,
            report=lambda line: print(line, flush=True),
        )


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument(
    "--config",
    type=Path,
    default=Path("configs/phase0_runtime.yaml"),
    help="phase0_runtime.yaml in its tier's folder (default: %(default)s)",
)
parser.add_argument("--execute", action="store_true", help="start the engine and measure")
parser.add_argument("--target", type=existing_folder, help="model folder of the target")
parser.add_argument("--drafter", type=existing_folder, help="model folder of the drafter")
parser.add_argument("--adapters", type=named_path, nargs="+", default=[], help="NAME=FOLDER for each adapter")
parser.add_argument("--cells", nargs="+", default=[], metavar="ID", help="only these cells, and no cache tests")
parser.add_argument("--again", action="store_true", help="also repeat what was measured with the same code and config")
parser.add_argument(
    "--output",
    type=Path,
    help="observations to write or merge into; the plan goes beside it (default: in results/TIER/by_hand/phase0)",
)

if __name__ == "__main__":
    run_script(parser, main)
