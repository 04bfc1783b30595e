"""What every script of the workflow shares: flags that hold JSON, and errors as one line with an exit code."""

import argparse
import math
import os
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from lora_spec.cli import exit_codes
from lora_spec.cli.os_errors import told_os_error
from lora_spec.cli.output import abandon, flush_answer, tell
from lora_spec.errors import ConfigError, EngineError, LoraSpecError, MeasurementError, TrainingError

EXIT_FAILED_RUN = exit_codes.FAILED
EXIT_WRONG_INPUT = exit_codes.WRONG_INPUT
EXIT_INTERRUPTED = 130  # 128 + SIGINT, as shells tell it

_SERVING_PACKAGES = ("torch", "vllm", "transformers", "peft", "pyarrow", "gguf", "accelerate")


def run_script(parser: argparse.ArgumentParser, main: Callable[[argparse.Namespace], None]) -> None:
    """Parse the flags, run the script, and leave with 0, 1 (a failed run), 2 (wrong input) or 130 (interrupted).

    Only errors that a user can cause or mend become one line; a fault of our own keeps its traceback, since
    it belongs in the rule's log.
    """
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end, as the one it stands for
    try:
        main(parser.parse_args())
        flush_answer()
    except BrokenPipeError:
        abandon(sys.stdout)  # the reader (head, less) has gone, and what files the script writes is written
        sys.exit(EXIT_FAILED_RUN)
    except KeyboardInterrupt:
        tell(f"{parser.prog}: interrupted; what is written is whole, the same command goes on")
        sys.exit(EXIT_INTERRUPTED)
    except (LoraSpecError, OSError, UnicodeError, RecursionError, MemoryError, ModuleNotFoundError) as error:
        message, code = _told(error)
        tell(f"{parser.prog}: {message}")
        if isinstance(error, OSError) and sys.stdout is not None:
            abandon(sys.stdout)
        sys.exit(code)


def _told(error: BaseException) -> tuple[str, int]:
    """Return the one line for an error and its exit code."""
    if isinstance(error, LoraSpecError):
        is_failed_run = isinstance(error, EngineError | MeasurementError | TrainingError)
        is_failed_run = is_failed_run and not isinstance(error, ConfigError)
        return " ".join(str(error).split()), EXIT_FAILED_RUN if is_failed_run else EXIT_WRONG_INPUT
    if isinstance(error, ModuleNotFoundError):
        return _told_missing(error)
    if isinstance(error, OSError):
        return told_os_error(error)
    if isinstance(error, RecursionError):
        return "an input is nested too deep to be one of ours; check the paths", EXIT_WRONG_INPUT
    if isinstance(error, MemoryError):
        return "memory ran out; run it alone or on a larger machine", EXIT_FAILED_RUN
    return f"a name or a text is no UTF-8 ({error}); rename or rewrite it", EXIT_WRONG_INPUT


def _told_missing(error: ModuleNotFoundError) -> tuple[str, int]:
    if (error.name or "").partition(".")[0] not in _SERVING_PACKAGES:
        raise error
    return f"{error.name} is not in this environment; run it with .venv-serving/bin/python", EXIT_WRONG_INPUT


def add_json_flag(parser: argparse.ArgumentParser, flag: str, kind: Any, *, help: str, required: bool = True) -> None:
    """Declare a flag whose JSON value must be of a type; the script gets the plain value as it was given."""

    def parse(text: str) -> Any:
        from lora_spec.strict_json import StrictJsonError, parse_own
        from lora_spec.typed import check_type

        try:
            data = parse_own(text.encode())
        except (StrictJsonError, UnicodeError) as error:
            raise ConfigError(f"{flag}: not JSON ({error}); pass one JSON value") from error
        check_type(kind, data, flag, error=ConfigError)
        return data

    parser.add_argument(flag, type=parse, required=required, help=help)


def adapter_name(text: str) -> str:
    """Parse a name that becomes a file name, by the rule of the config files."""
    from lora_spec.typed import AdapterName, check_type

    check_type(AdapterName, text, "name of an adapter", error=ConfigError)
    return text


def positive_count(text: str) -> int:
    """Parse a number of threads, processes or things, of which there must be one at least."""
    if not re.fullmatch(r"0*[1-9][0-9]{0,5}", text, re.ASCII):
        raise ConfigError(f"{text[:80]!r}: must be a whole number from 1 to 999999")
    return int(text)


def positive_number(text: str) -> float:
    """Parse a length of time or the like: above 0 and finite, which NaN is not."""
    return _number_in(text, "a number above 0", lambda value: 0 < value < math.inf)


def interval_level(text: str) -> float:
    """Parse the level of an interval."""
    return _number_in(text, "a level between 0 and 1, such as 0.9", lambda value: 0 < value < 1)


def _number_in(text: str, wanted: str, is_wanted: Callable[[float], bool]) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not is_wanted(value):
        raise ConfigError(f"{text[:80]!r}: must be {wanted}")
    return value


def tier_name(text: str) -> str:
    """Parse the name of a tier, which becomes a folder below ``results`` or ``reference``."""
    from lora_spec.typed import AdapterName, check_type

    check_type(AdapterName, text, "name of a tier", error=ConfigError)
    return text


def existing_folder(text: str) -> Path:
    """Parse the path of a folder that must be there."""
    path = Path(text)
    try:
        is_there = bool(text) and path.is_dir()
    except (OSError, ValueError):
        is_there = False
    if not is_there:
        raise ConfigError(f"{text[:400]!r}: no such folder; run the step that makes it, or correct the path")
    return path


def named_path(text: str) -> tuple[str, Path]:
    """Parse ``NAME=FOLDER`` for a folder that must be there."""
    name, _, path = text.partition("=")
    return adapter_name(name), existing_folder(path)


def file_stem(text: str) -> Path:
    """Parse the path of outputs without their endings."""
    if text.endswith("/") or Path(text).name in ("", ".."):
        raise ConfigError(f"{text!r}: ends in no name; give a path to which .txt and the like can be added")
    return Path(text)
