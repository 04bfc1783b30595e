"""``lora-spec inspect``: what adapter folders hold."""

import argparse
import os
from pathlib import Path

from lora_spec.adapter import Inspection, inspect_adapter
from lora_spec.adapter.printing import printable
from lora_spec.cli import exit_codes
from lora_spec.cli.output import print_json, tell


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("folders", nargs="+", type=Path, metavar="ADAPTER_DIR", help="adapter folder")
    parser.add_argument("--json", action="store_true", help="print the result as JSON on stdout")
    parser.add_argument("--header-only", action="store_true", help="read config and headers only: quick, no norms")


def run(args: argparse.Namespace) -> int:
    """Inspect and return the exit code."""
    # One thread: the matrices are small, and a fleet is inspected in parallel processes.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    statuses = set()
    for folder in args.folders:
        inspection = inspect_adapter(folder, header_only=args.header_only)
        statuses.add(inspection.status)
        if args.json:
            print_json({**inspection.to_dict(), "path": printable(folder, 4000)})
        tell(describe(inspection))
    return exit_codes.of_statuses(statuses)


def describe(inspection: Inspection) -> str:
    """Return the inspection as a few lines for people."""
    return f"{printable(inspection.path)}: {inspection.status}: {inspection.message}"
