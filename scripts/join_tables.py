"""Join verdicts, estimates, predictions and step times into one table per figure."""

import argparse
from pathlib import Path

from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cli.settings_flags import StudySettings
from lora_spec.plots.saving import csv_bytes
from lora_spec.plots.study import load_study, tables_of
from lora_spec.results import naming, write_all_atomically


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    study = load_study(
        measured=args.measured,
        predictions=args.predictions,
        cost_model=args.cost_model,
        step_times=args.step_times,
        verdicts=args.verdicts,
        effect_gate=args.effect_gate,
        certifications=args.certification,
        settings=args.settings,
        comparison=args.comparison,
    )
    with naming(args.measured, args.predictions, args.step_times):
        tables = tables_of(study)
    write_all_atomically({args.output_dir / f"{name}.csv": csv_bytes(table) for name, table in tables.items()})


parser = argparse.ArgumentParser(description=__doc__)
for flag in (
    "--measured",
    "--predictions",
    "--cost-model",
    "--step-times",
    "--effect-gate",
    "--output-dir",
):
    parser.add_argument(flag, type=Path, required=True)
parser.add_argument("--certification", type=Path, nargs="+", required=True, help="of the gate's mode, then of others")
parser.add_argument("--comparison", type=Path, help="scores of all predictors, where they were compared")
parser.add_argument("--verdicts", type=Path, nargs="+", required=True)
add_json_flag(parser, "--settings", StudySettings, help="tier, pool and gate, JSON")

if __name__ == "__main__":
    run_script(parser, main)
