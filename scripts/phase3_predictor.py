"""Fit the acceptance predictor, and predict each adapter from adapters of other domains only.

--smoke-test tries the path on made-up adapters, without any measurement: what it writes says so and is no evidence.
"""

import argparse
from pathlib import Path

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, positive_count, run_script
from lora_spec.cli.settings_flags import PredictorSettings
from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.errors import ConfigError
from lora_spec.kept_results import KEY, inputs_sha256, take_kept
from lora_spec.plots.context import WATERMARK
from lora_spec.predictors.fit_files import fit_files
from lora_spec.predictors.payload import read_predictions, read_predictor
from lora_spec.predictors.smoke import smoke_fit
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result

KINDS = ("predictor", "predictions")
READERS = {"predictor": read_predictor, "predictions": read_predictions}


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    places, inputs = {kind: args.output_dir / f"{kind}.json" for kind in KINDS}, None
    if args.smoke_test:
        gate = read_config(args.gate, GateConfig).to_dict()
        settings, tier, evidence = {"gate": gate}, "smoke", "synthetic-smoke"
        fitted = smoke_fit(gate, seed=gate["predictor"]["seed"])
        tell(f"{WATERMARK}: predictor and predictions are of made-up adapters")
    elif None in (args.records, args.settings, args.tier):
        raise ConfigError("--features needs --records, --settings and --tier beside it; or try --smoke-test")
    else:
        settings, tier, evidence = args.settings, args.tier, "measured"
        inputs = inputs_sha256([*args.features, *args.records, *args.calibration], settings)
        if strange := [path for path in args.kept if path.stem not in places]:
            raise ConfigError(
                f"--kept {strange[0]}: is neither predictor.json nor predictions.json; give both of these"
            )
        kept = {places[path.stem]: path for path in args.kept}
        readers = {places[kind]: READERS[kind] for kind in KINDS}
        reason = take_kept(kept, readers=readers, tier=tier, inputs=inputs)
        if reason is None:
            return
        tell(f"{reason}: fitting")
        fitted = fit_files(
            args.features, args.records, args.calibration, settings=settings, tier=tier, num_workers=args.threads
        )
    provenance = collect_provenance(config=settings, seed=settings["gate"]["predictor"]["seed"])
    provenance |= {} if inputs is None else {KEY: inputs}
    for kind, payload in zip(KINDS, (fitted.predictor, fitted.predictions), strict=True):
        write_result(places[kind], kind=kind, evidence=evidence, tier=tier, provenance=provenance, payload=payload)


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
mode = parser.add_mutually_exclusive_group(required=True)
mode.add_argument("--smoke-test", action="store_true", help="made-up adapters; needs --output-dir only")
mode.add_argument("--features", type=Path, nargs="+", help="one per adapter")
parser.add_argument("--records", type=Path, nargs="+", help="acceptance records, one per adapter")
parser.add_argument(
    "--calibration",
    type=Path,
    nargs="*",
    default=[],
    help="calibration records, which the predictor then sees",
)
add_json_flag(parser, "--settings", PredictorSettings, help="gate, pool and pair, JSON", required=False)
parser.add_argument("--tier", help="of the features and records")
parser.add_argument(
    "--gate", type=Path, default=Path("configs/gate.yaml"), help="of the smoke test (default: %(default)s)"
)
parser.add_argument("--kept", type=Path, nargs="*", default=[], help="both results, taken over if of the same inputs")
parser.add_argument("--threads", type=positive_count, default=1, help="processes that fit (default: %(default)s)")
parser.add_argument("--output-dir", type=Path, required=True)

if __name__ == "__main__":
    run_script(parser, main)
