"""What every script of the workflow shares: flags that hold JSON, and errors as one line with an exit code."""

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lora_spec.errors import EngineError, LoraSpecError, MeasurementError, TrainingError

EXIT_FAILED_RUN = 1
EXIT_WRONG_INPUT = 2


def json_flag(text: str) -> Any:
    """Parse a flag's JSON value; argparse turns the ValueError into a usage error."""
    return json.loads(text)


def run_script(parser: argparse.ArgumentParser, main: Callable[[argparse.Namespace], None]) -> None:
    """Parse the flags, run the script, and leave with 0, 1 (a failed run) or 2 (wrong input).

    Only errors that a user can cause or mend become one line; a fault of our own keeps its traceback, since
    it belongs in the rule's log.
    """
    args = parser.parse_args()
    try:
        main(args)
    except LoraSpecError as error:
        print(f"{parser.prog}: {error}", file=sys.stderr)
        is_failed_run = isinstance(error, EngineError | MeasurementError | TrainingError)
        sys.exit(EXIT_FAILED_RUN if is_failed_run else EXIT_WRONG_INPUT)


def named_path(text: str) -> tuple[str, Path]:
    """Parse ``NAME=PATH``; argparse turns the ValueError into a usage error."""
    name, separator, path = text.partition("=")
    if not (name and separator and path):
        raise ValueError(text)
    return name, Path(path)
