"""``lora-spec policy``: a fleet of verdicts becomes what engines obey and people read."""

import argparse
import os
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from lora_spec.cli import exit_codes
from lora_spec.cli.output import print_json, tell
from lora_spec.cli.paths import given_path
from lora_spec.errors import ConfigError
from lora_spec.printing import printable

if TYPE_CHECKING:
    from lora_spec.gate.fleet_verdicts import FleetVerdict

_MOST_LORAS = 100_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "verdicts", nargs="+", type=given_path, metavar="VERDICTS", help="verdict files (.json, .jsonl) or folders"
    )
    parser.add_argument("--cost-model", type=given_path, required=True, metavar="F", help="that of the verdicts")
    parser.add_argument(
        "--step-cost", type=given_path, metavar="F", help="fitted parts of a step: they tell what being off costs"
    )
    parser.add_argument(
        "--traffic",
        type=given_path,
        metavar="F",
        help="JSON, output tokens by adapter, 0 where left out (default: all have the same); needs --step-cost",
    )
    parser.add_argument("--gate", type=given_path, required=True, metavar="F", help="gate.yaml")
    parser.add_argument("--target", required=True, metavar="MODEL", help="model that vLLM serves: folder or repository")
    parser.add_argument("--drafter", required=True, metavar="MODEL", help="its draft model")
    parser.add_argument("--output-dir", type=given_path, required=True, metavar="DIR", help="where the files go")
    parser.add_argument(
        "--adapter", action="append", default=[], metavar="NAME=PATH", help="where vLLM finds an adapter; repeatable"
    )
    parser.add_argument("--adapters-dir", type=given_path, metavar="DIR", help="folder with one folder per adapter")
    parser.add_argument("--measured", type=given_path, metavar="F", help="measured acceptance, JSON: for the profiles")
    parser.add_argument(
        "--mode",
        metavar="MODE",
        help="take verdicts of this mode alone: measured, checkpoint_calib, ... (default: measured where there is one)",
    )
    parser.add_argument("--max-loras", type=int, metavar="N", help="adapters in one batch (default: as timed)")
    parser.add_argument("--max-lora-rank", type=int, metavar="N", help="largest rank (default: that of the adapters)")
    parser.add_argument("--allow-smoke", action="store_true", help="accept inputs made from synthetic values")
    parser.add_argument("--json", action="store_true", help="print the plan of pools on stdout")


def run(args: argparse.Namespace) -> int:
    """Write the folder and return the exit code."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    from lora_spec.cli.policy_folder import FleetInputs, write_policy_folder
    from lora_spec.cost_model.payload import read_cost_model_result
    from lora_spec.cost_model.step_payload import read_step_cost_result
    from lora_spec.gate.fleet_mix import read_traffic
    from lora_spec.gate.fleet_verdicts import read_fleet
    from lora_spec.provenance import collect_provenance

    _check_words(args)
    _check_paths(args)
    evidence = ("measured", "synthetic-smoke") if args.allow_smoke else ("measured",)
    verdicts = read_fleet(args.verdicts, mode=args.mode, evidence=evidence)
    paths = _adapter_paths(args, verdicts)
    inputs = FleetInputs(
        verdicts=verdicts,
        cost_model=read_cost_model_result(args.cost_model, evidence=evidence),
        gate=_gate(args.gate),
        target=args.target,
        drafter=args.drafter,
        adapter_paths=paths,
        provenance=collect_provenance(config=_flags(args), seed=None, command=["lora-spec", "policy"]),
        summaries=_summaries(args.measured),
        traffic=args.traffic and read_traffic(args.traffic, [verdict.name for verdict in verdicts]),
        step_cost=args.step_cost and read_step_cost_result(args.step_cost, evidence=evidence),
        max_loras=args.max_loras,
        max_lora_rank=args.max_lora_rank or _largest_rank(paths.values()),
    )
    plan = write_policy_folder(inputs, args.output_dir)
    if args.json:
        print_json(plan)
    tell(describe(plan, args.output_dir))
    return exit_codes.OK


def _check_words(args: argparse.Namespace) -> None:
    for flag, value in (("--max-loras", args.max_loras), ("--max-lora-rank", args.max_lora_rank)):
        if value is not None and not 1 <= value <= _MOST_LORAS:
            raise ConfigError(f"{flag} {value}: it is a whole number from 1 to {_MOST_LORAS}")
    for flag, value in (("--target", args.target), ("--drafter", args.drafter)):
        if not value or value.startswith("-") or "\0" in value:
            raise ConfigError(f"{flag} {printable(value)!r}: give a model's folder or repository")
    if args.traffic is not None and args.step_cost is None:
        raise ConfigError("--traffic changes nothing without --step-cost: give the parts of a step, or leave it out")


def _check_paths(args: argparse.Namespace) -> None:
    """Refuse outputs that would replace an input, or be read as a verdict by the next run."""
    from lora_spec.cli.policy_folder import FILES

    outputs = {_place(args.output_dir), *(_place(args.output_dir / name) for name in FILES)}
    for path in (*args.verdicts, args.cost_model, args.step_cost, args.traffic, args.gate, args.measured):
        if path is not None and _place(path) in outputs:
            raise ConfigError(
                f"--output-dir {printable(args.output_dir, 400)}: its files would lie where the input "
                f"{printable(path, 400)} lies; name another folder"
            )


def _place(path: Path) -> Path:
    try:
        return path.resolve()
    except (OSError, RuntimeError):  # a loop of links, which whoever opens it will name
        return path.absolute()


def _gate(path: Path) -> dict[str, Any]:
    from lora_spec.config import read_config
    from lora_spec.config.gate import GateConfig
    from lora_spec.regular_file import kind_if_irregular

    if kind := kind_if_irregular(path):
        raise ConfigError(f"{path}: is {kind}; give a gate.yaml")
    return read_config(path, GateConfig).to_dict()


def _summaries(path: Path | None) -> dict[str, Mapping[str, Any]]:
    if path is None:
        return {}
    from lora_spec.joins import by_adapter
    from lora_spec.measurement.payload import read_measured

    return by_adapter(read_measured(path).payload["adapters"], lambda item: item["adapter"], what="measured adapters")


def _adapter_paths(args: argparse.Namespace, verdicts: "Sequence[FleetVerdict]") -> dict[str, str]:
    """Return where each adapter of the fleet lies: as named, else below the folder of all."""
    named = by_name(map(named_adapter, args.adapter))
    if strangers := sorted(set(named) - {verdict.name for verdict in verdicts}):
        raise ConfigError(f"--adapter {printable(strangers[0])}: no verdict on this adapter; diagnose it first")
    paths = {}
    for verdict in verdicts:
        if verdict.name in named:
            paths[verdict.name] = named[verdict.name]
        elif args.adapters_dir is None or "/" in verdict.name or verdict.name in (".", ".."):
            raise ConfigError(
                f"adapter {printable(verdict.name)}: nobody says where it lies; pass --adapter NAME=PATH, or "
                "--adapters-dir with a folder of its name"
            )
        else:
            paths[verdict.name] = str(args.adapters_dir / verdict.name)
    _check_there(args.adapters_dir, [name for name in paths if name not in named])
    return paths


def _check_there(folder: Path | None, names: Sequence[str]) -> None:
    """Refuse adapters that a folder of this machine lacks: an engine would die of them at its start."""
    if folder is None or not folder.is_dir():  # the engines' machine may have it
        return
    if missing := [name for name in names if not (folder / name / "adapter_config.json").is_file()]:
        more = f" and {len(missing) - 1} more" if len(missing) > 1 else ""
        raise ConfigError(
            f"--adapters-dir {printable(folder, 400)}: no adapter {printable(missing[0])}{more} in it, on which there "
            "are verdicts; give the folder that has them, --adapter NAME=PATH, or fewer verdicts"
        )


def by_name(named: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Return path by name; a name with two paths is refused."""
    paths: dict[str, str] = {}
    for name, path in named:
        if paths.setdefault(name, path) != path:
            raise ConfigError(f"adapter {printable(name)}: two paths for one adapter; give the one that servers find")
    return paths


def named_adapter(word: str) -> tuple[str, str]:
    """Return name and path; a name may hold = where its path holds none, so the last one parts them."""
    name, sign, path = word.rpartition("=")
    if not (sign and name and path):
        raise ConfigError(f"adapter {printable(word)!r}: write NAME=PATH")
    return name, path


def _largest_rank(paths: "Sequence[str] | Any") -> int | None:
    """Return the largest rank among adapters that lie on this machine, None where none does."""
    from lora_spec.adapter import inspect_adapter

    found = [inspect_adapter(Path(path), header_only=True) for path in paths if Path(path).is_dir()]
    return max((module.rank for inspection in found for module in inspection.modules), default=None)


def _flags(args: argparse.Namespace) -> dict[str, Any]:
    """Return what was asked, without where files lie on this machine."""
    files = ("cost_model", "step_cost", "gate", "measured", "traffic")
    return {
        **{key: getattr(args, key) and getattr(args, key).name for key in files},
        **{key: getattr(args, key) for key in ("mode", "max_loras", "max_lora_rank", "allow_smoke")},
        "verdicts": [path.name for path in args.verdicts],
    }


def describe(plan: Mapping[str, Any], folder: Path) -> str:
    """Return the plan as a few lines for people."""
    lines = [f"{printable(folder, 400)}: policy.json, pools.json, pools.sh, profiles and fleet.html"]
    for pool in plan["pools"]:
        depth = f"K={pool['num_speculative_tokens']}" if pool["num_speculative_tokens"] else "no drafter"
        count = len(pool["adapters"])
        lines.append(f"  pool {pool['name']}: {depth}, {count} adapter{'' if count == 1 else 's'}")
    off, is_for_mix = len(plan["off"]["in_engine"]), bool(plan["drafting_gain_by_load"])
    depths = "depths that suit the mix" if is_for_mix else "every adapter at its own depth"
    lines.append(f"  {plan['one_engine']['name']}: {depths}, {off} of them off at batch {plan['batch_size']}")
    if gain := plan["drafting_gain"]:
        lines.append(
            f"  {gain['told']}"
            + ("" if gain["is_drafter_worth_it"] else f": start {plan['no_drafter']['name']} instead")
        )
    return "\n".join(lines)
