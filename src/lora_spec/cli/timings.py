"""What the scripts that time engines share: their flags, and writing what was timed beside what processor it was."""

import argparse
from pathlib import Path
from typing import Any, Protocol

from lora_spec.cli.output import tell
from lora_spec.cli.script import add_json_flag, existing_folder, named_path
from lora_spec.cli.settings_flags import PairNames
from lora_spec.config.models import EngineConfig
from lora_spec.measurement.campaign import named_folders
from lora_spec.measurement.processor import cpu_features
from lora_spec.provenance import collect_provenance
from lora_spec.results import write_result


class Timing(Protocol):
    """A timing campaign: settings of its block and of the engine in, payload of its result out."""

    def __call__(self, settings: Any, engine: Any, /, **circumstances: Any) -> dict[str, Any]: ...


def timing_parser(description: str | None, block: str, kind: type) -> argparse.ArgumentParser:
    """Return a parser with the flags of every timing campaign; ``block`` of phase1_measurement.yaml is its settings."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--target", type=existing_folder, required=True, help="model folder of the target")
    parser.add_argument("--drafter", type=existing_folder, required=True, help="model folder of the drafter")
    parser.add_argument(
        "--adapters", type=named_path, nargs="+", required=True, help="NAME=FOLDER of adapters to serve"
    )
    add_json_flag(parser, "--settings", kind, help=f"{block} block of phase1_measurement.yaml, JSON")
    add_json_flag(parser, "--engine", EngineConfig, help="engine block of models.yaml, JSON")
    add_json_flag(parser, "--pair", PairNames, help="names of target and drafter, JSON")
    parser.add_argument("--tier", required=True)
    parser.add_argument("--output", type=Path, required=True)
    return parser


def time_and_write(args: argparse.Namespace, timing: Timing, *, block: str, kind: str) -> None:
    """Run a timing campaign and write its result, with what of the processor decides how fast a step is."""
    payload = timing(
        args.settings,
        args.engine,
        target=args.target,
        drafter=args.drafter,
        adapters=named_folders(args.adapters),
        names={"target": args.pair["target_model"], "drafter": args.pair["draft_model"]},
        report=tell,
    )
    provenance = collect_provenance(config={block: args.settings, "engine": args.engine}, seed=args.settings["seed"])
    provenance["runtime"]["cpu_features"] = cpu_features()
    write_result(args.output, kind=kind, evidence="measured", tier=args.tier, provenance=provenance, payload=payload)
