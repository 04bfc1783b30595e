"""``lora-spec inspect``: what adapter folders hold, one or a fleet of them."""

import argparse
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from lora_spec.adapter.discovery import PassedOver, find_adapters
from lora_spec.cli import exit_codes
from lora_spec.cli.fleet import Options, Progress, check_options, default_num_processes, inspect_many
from lora_spec.cli.output import print_json, tell
from lora_spec.cli.paths import given_path
from lora_spec.printing import printable

RUNTIME_NAMES = ("vllm", "sglang", "llama.cpp", "peft", "lorax")
_SHOWN = 20  # folders that are passed over: the rest are only counted


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folders", nargs="+", type=given_path, metavar="ADAPTER_DIR", help="adapter folder")
    parser.add_argument("--json", action="store_true", help="print JSON on stdout; several folders always do")
    parser.add_argument("--recursive", action="store_true", help="inspect every adapter below the folders")
    parser.add_argument("--header-only", action="store_true", help="read config and headers only: quick, no norms")
    parser.add_argument("--runtime", choices=RUNTIME_NAMES, help="also say what this server would really apply")
    parser.add_argument("--base", type=given_path, metavar="MODEL_DIR", help="base model folder: norms relative to it")
    parser.add_argument("--base-profile", type=given_path, metavar="F", help="base profile: effect on the base")
    parser.add_argument("--jobs", type=_count, metavar="N", help="parallel processes (default: all processors)")


def _count(text: str) -> int:
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("at least 1")
    return number


def run(args: argparse.Namespace) -> int:
    """Inspect and return the exit code: 2 if any adapter is wrong, else 3 if any abstains, else 0."""
    # One thread each: the matrices are small, and a fleet is inspected in parallel processes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    is_fleet = args.recursive or len(args.folders) > 1
    options = Options(args.header_only, args.runtime, args.base, args.base_profile)
    check_options(options)
    passed_over: list[PassedOver] = []
    paths = list(_expand(args.folders, passed_over)) if args.recursive else args.folders
    progress, statuses = Progress(len(paths)), set()
    for answer in inspect_many(paths, options, args.jobs or default_num_processes()):
        statuses.add(answer.data["status"])
        if args.json or is_fleet:
            print_json(answer.data)
        if not is_fleet:
            tell(answer.line)
        progress.advance(answer.data["status"])
    progress.finish()
    for place in passed_over[:_SHOWN]:
        tell(f"{printable(place.path, 400)}: passed over: {place.reason}")
    if is_fleet:
        tell(progress.summary() + _count_passed_over(passed_over))
    return exit_codes.of_statuses(statuses)


def _count_passed_over(passed_over: Sequence[PassedOver]) -> str:
    if not passed_over:
        return ""
    more = f", of which {_SHOWN} are named above" if len(passed_over) > _SHOWN else ""
    return f"; {len(passed_over)} folder{'s' if len(passed_over) > 1 else ''} passed over{more}"


def _expand(folders: Sequence[Path], passed_over: list[PassedOver]) -> Iterator[Path]:
    """Yield the adapters below each folder; a folder without any stands for itself, so that it is told."""
    for folder in folders:
        found = False
        for path in find_adapters(folder, passed_over):
            found = True
            yield path
        if not found:
            yield folder
