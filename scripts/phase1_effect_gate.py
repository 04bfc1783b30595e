"""Judge whether adapters change acceptance enough to act on it: GO, INVESTIGATE or STOP, by the pre-registered rule.

Writes the answer with the numbers behind it; every answer exits 0. --config takes the settings from the files of a
tier, as the workflow does: the rule, the strata of its pool, the depths of its gate. A cost model is what
fit_cost_model writes; `make figures` leaves one in results/mini-shipped.

  phase1_effect_gate.py --config configs/mini/phase1_measurement.yaml \\
      --records reference/mini/acceptance/*.parquet --cost-model results/mini-shipped/cost_model.json
"""

import argparse
from pathlib import Path
from typing import Any

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, run_script
from lora_spec.config import tier_holding
from lora_spec.config.effect_settings import effect_settings
from lora_spec.cost_model.payload import read_cost_model
from lora_spec.errors import ConfigError
from lora_spec.gate.effect_report import EffectSettings, effect_report
from lora_spec.measurement.record_table import read_records
from lora_spec.provenance import collect_provenance
from lora_spec.results import naming, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    plain, name = _settings(args)
    settings = EffectSettings.from_dict(plain)
    records, live = ([read_records(path, tier=name) for path in paths] for paths in (args.records, args.live_records))
    cost_model = read_cost_model(args.cost_model, tier=name)
    with naming(*args.records, *args.live_records, args.cost_model):
        report = effect_report(records, cost_model, settings, live=live)
    output = args.output or by_hand(name, "phase1") / "effect_gate.json"
    provenance = collect_provenance(config=plain, seed=settings.rule.seed)
    write_result(output, kind="effect_gate", evidence="measured", tier=name, provenance=provenance, payload=report)
    tell(f"{report['answer']}: {report['sentence']}")


def _settings(args: argparse.Namespace) -> tuple[dict[str, Any], str]:
    """Return the settings and the tier's name, from --config or from --settings and --tier."""
    if args.config is not None:
        tier = tier_holding(args.config, "phase1_measurement")
        return effect_settings(tier, tier.adapter_pool.names), tier.name
    if args.settings is None or args.tier is None:
        raise ConfigError("pass --config with a tier's phase1_measurement.yaml, or both --settings and --tier")
    return args.settings, args.tier


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument("--config", type=Path, help="phase1_measurement.yaml in its tier's folder")
parser.add_argument("--records", type=Path, nargs="+", required=True, help="acceptance records, one per adapter")
parser.add_argument("--live-records", type=Path, nargs="*", default=[], help="records of the live confirmation")
parser.add_argument("--cost-model", type=Path, required=True, help="fitted cost model, JSON")
add_json_flag(
    parser,
    "--settings",
    EffectSettings,
    help='in place of --config, JSON: {"rule": ..., "strata": {ADAPTER: STRATUM}, "live_depth": K}',
    required=False,
)
parser.add_argument("--tier", help="tier that the files must be of, with --settings")
parser.add_argument("--output", type=Path, help="default: results/TIER/by_hand/phase1/effect_gate.json")

if __name__ == "__main__":
    run_script(parser, main)
