"""Judge whether adapters change acceptance enough to act on it: GO, INVESTIGATE or STOP, by the pre-registered rule.

Writes the answer with the numbers behind it; every answer exits 0. Without --settings they are taken from the tier
of --config, as the workflow does: the rule, the strata of its pool, the depths of its gate.

  phase1_effect_gate.py --config configs/mini/phase1_measurement.yaml --tier mini \\
      --records reference/mini/acceptance/*.parquet --cost-model results/mini-shipped/cost_model.json \\
      --output results/mini/by_hand/phase1/effect_gate.json
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.gate.effect_report import EffectSettings, effect_report
from lora_spec.measurement.record_table import read_records
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    settings = EffectSettings.from_dict(args.settings)
    records, live = (
        [read_records(path, tier=args.tier) for path in paths] for paths in (args.records, args.live_records)
    )
    cost_model = read_cost_model(args.cost_model, tier=args.tier)
    with naming(*args.records, *args.live_records, args.cost_model):
        report = effect_report(records, cost_model, settings, live=live)
    provenance = collect_provenance(config=args.settings, seed=settings.rule.seed)
    write_result(
        args.output, kind="effect_gate", evidence="measured", tier=args.tier, provenance=provenance, payload=report
    )
    tell(f"{report['answer']}: {report['sentence']}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
parser.add_argument("--live-records", type=Path, nargs="*", default=[], help="records of the live confirmation")
parser.add_argument("--cost-model", type=Path, required=True, help="fitted cost model, JSON")
add_json_flag(parser, "--settings", EffectSettings, help="the rule and the strata of the adapters, JSON")
parser.add_argument("--tier", required=True)
parser.add_argument("--output", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
