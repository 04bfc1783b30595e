"""``lora-spec diagnose``: the verdict on one adapter folder."""

import argparse
import dataclasses
import os
from typing import TYPE_CHECKING, Any

from lora_spec.cli import exit_codes
from lora_spec.cli.output import json_line, print_json, say, tell
from lora_spec.cli.paths import given_path
from lora_spec.errors import ConfigError, LoraSpecError, PredictorError
from lora_spec.printing import printable

if TYPE_CHECKING:
    from collections.abc import Collection

    from lora_spec.calibration_record import CalibrationRecord
    from lora_spec.features import BaseProfile
    from lora_spec.gate import GateSettings
    from lora_spec.records import Evidence
    from lora_spec.results import Result

_REASONS_TOLD = 6
_MOST_REQUESTS = 1_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folder", type=given_path, metavar="ADAPTER_DIR", help="PEFT adapter folder")
    parser.add_argument("--predictor", type=given_path, required=True, metavar="F", help="exported predictor, JSON")
    parser.add_argument(
        "--cost-model", type=given_path, metavar="F", help="cost model, JSON; without it the verdict abstains"
    )
    parser.add_argument(
        "--certificate",
        type=given_path,
        metavar="F",
        help="certification, JSON: its limit of the doubt decides what is committed; without it the intervals do",
    )
    parser.add_argument("--base-profile", type=given_path, metavar="F", help="base profile, if the predictor needs one")
    parser.add_argument(
        "--calibration", type=given_path, metavar="F", help="calibration record, if the predictor looks at probes"
    )
    parser.add_argument("--gate", type=given_path, metavar="F", help="gate.yaml: depths, tolerances, load")
    parser.add_argument("--load-batch-size", type=float, metavar="N", help="load of the verdict, requests per batch")
    parser.add_argument("--traffic-share", type=float, metavar="X", help="the adapter's share of requests, 0 to 1")
    parser.add_argument("--allow-smoke", action="store_true", help="accept inputs made from synthetic values")
    parser.add_argument("--json", action="store_true", help="accepted for symmetry: JSON is always printed on stdout")


def run(args: argparse.Namespace) -> int:
    """Diagnose, print one JSON object, and return the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    try:
        outcome, data = _diagnose(args)
        answer, told = json_line(data), describe(data, printable(args.folder, 400))
    except PredictorError as err:
        return _report(f"{args.predictor}: {err}", exit_codes.WRONG_INPUT)
    except LoraSpecError as err:
        # Nothing is run here that could fail: whatever cannot be reckoned with came in with an input.
        return _report(str(err), exit_codes.WRONG_INPUT)
    except RecursionError:
        return _report("an input is nested too deep to be one of ours; check the paths", exit_codes.WRONG_INPUT)
    except Exception as err:  # the contract of this command is one JSON object and no traceback, whatever happens
        return _report(f"unforeseen {type(err).__name__}: {err}; please report it", exit_codes.FAILED)
    say(answer)
    tell(told)
    return outcome


def _diagnose(args: argparse.Namespace) -> tuple[int, dict[str, Any]]:
    from lora_spec.gate.diagnose import Refusal, diagnose
    from lora_spec.predictors.payload import read_predictor
    from lora_spec.provenance import collect_provenance

    _check_numbers(args)
    evidence = ("measured", "synthetic-smoke") if args.allow_smoke else ("measured",)
    predictor = read_predictor(args.predictor, evidence=evidence)
    cost_model = _cost_model(args, evidence)
    found = diagnose(
        args.folder,
        predictor,
        cost_model,
        certificate=_certificate(args, evidence),
        settings=_settings(args, predictor),
        traffic_share=args.traffic_share,
        profile=_base_profile(args),
        probe=_probe(args),
        provenance=collect_provenance(config=_flags(args), seed=None),
    )
    if isinstance(found, Refusal):
        return exit_codes.WRONG_INPUT, found.inspection
    return exit_codes.ABSTAIN if found.action == "abstain" else exit_codes.OK, found.to_dict()


def _cost_model(args: argparse.Namespace, evidence: "Collection[Evidence]") -> "Result | None":
    if args.cost_model is None:
        return None
    from lora_spec.cost_model.payload import read_cost_model_result

    return read_cost_model_result(args.cost_model, evidence=evidence)


def _certificate(args: argparse.Namespace, evidence: "Collection[Evidence]") -> "Result | None":
    if args.certificate is None:
        return None
    from lora_spec.gate.payload import read_certification

    return read_certification(args.certificate, evidence=evidence)


def _base_profile(args: argparse.Namespace) -> "BaseProfile | None":
    if args.base_profile is None:
        return None
    from lora_spec.features import read_base_profile

    return read_base_profile(args.base_profile)


def _probe(args: argparse.Namespace) -> "CalibrationRecord | None":
    if args.calibration is None:
        return None
    from importlib.util import find_spec

    from lora_spec.measurement.calibration_table import read_calibration

    if find_spec("pyarrow") is None:
        raise ConfigError("--calibration is a Parquet file, which needs pyarrow: pip install pyarrow")
    return read_calibration(args.calibration)


def _check_numbers(args: argparse.Namespace) -> None:
    if args.load_batch_size is not None and not 1 <= args.load_batch_size <= _MOST_REQUESTS:
        raise ConfigError(
            f"--load-batch-size {args.load_batch_size:g}: it is a number of requests, from 1 to {_MOST_REQUESTS}"
        )
    if args.traffic_share is not None and not 0 <= args.traffic_share <= 1:
        raise ConfigError(f"--traffic-share {args.traffic_share}: it is a fraction from 0 to 1")


def _settings(args: argparse.Namespace, predictor: "Result") -> "GateSettings":
    from lora_spec.gate import gate_settings
    from lora_spec.gate.diagnose import default_settings
    from lora_spec.regular_file import kind_if_irregular

    if args.gate is None:
        settings = default_settings(predictor.payload)
    else:
        from lora_spec.config import read_config
        from lora_spec.config.gate import GateConfig
        from lora_spec.gate.applicability import check_same_gate

        if kind := kind_if_irregular(args.gate):
            raise ConfigError(f"{args.gate}: is {kind}; give a gate.yaml")
        gate = read_config(args.gate, GateConfig).to_dict()
        check_same_gate(predictor.payload, gate, where=str(args.gate))
        settings = gate_settings(gate)
    if args.load_batch_size is None:
        return settings
    return dataclasses.replace(settings, headline_batch_size=args.load_batch_size)


def _flags(args: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked, without where files lie on this machine."""
    return {
        "adapter": args.folder.name,
        "predictor": args.predictor.name,
        "cost_model": args.cost_model and args.cost_model.name,
        "certificate": args.certificate and args.certificate.name,
        "base_profile": args.base_profile and args.base_profile.name,
        "calibration": args.calibration and args.calibration.name,
        "gate": args.gate and args.gate.name,
        "load_batch_size": args.load_batch_size,
        "traffic_share": args.traffic_share,
        "allow_smoke": args.allow_smoke,
    }


def _report(message: str, code: int) -> int:
    print_json({"schema_version": "1", "status": "error", "codes": [], "message": message})
    tell(f"lora-spec diagnose: {message}")
    return code


def describe(data: dict[str, Any], folder: str) -> str:
    """Return a verdict, or an inspection that refuses one, as a few lines for people."""
    if "action" not in data:
        return f"{folder}: error: {data['message']}"
    depth = data["num_speculative_tokens"]
    head = f"{folder}: {data['action']}" + ("" if depth is None else f": {depth} speculative tokens")
    told = [f"  {reason['code']}: {reason['message']}" for reason in data["reasons"][:_REASONS_TOLD]]
    rest = len(data["reasons"]) - len(told)
    return "\n".join(
        [f"{head}, drafter: {data['drafter']}", *told, *([f"  and {rest} more, all in the JSON"] if rest > 0 else [])]
    )
