"""``lora-spec``: find the sub-command, run it, turn errors into exit codes.

Sub-commands are modules named in the registry and imported only when asked for, so that ``--help`` stays quick.
Each gives ``add_arguments(parser)`` and ``run(args) -> int``.
"""

import argparse
import gc
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from lora_spec.cli import exit_codes
from lora_spec.errors import AdapterError, LoraSpecError

# What a short run makes lives until its end: looking for garbage after every 700 objects takes a tenth of its time.
_GC_THRESHOLD = 100_000


class Command(NamedTuple):
    """Where a sub-command lives and what it is for, in one line."""

    module: str
    help: str


COMMANDS: dict[str, Command] = {
    "inspect": Command("lora_spec.cli.inspect", "say what adapter folders hold, and whether a server applies it"),
    "diagnose": Command("lora_spec.cli.diagnose", "give the verdict on an adapter: speculate, shorten, or switch off"),
    "policy": Command("lora_spec.cli.policy", "turn verdicts into a policy file, a plan of pools and a fleet page"),
}


_EXIT_STATUS = "exit status: 0 verdict or ok, 3 abstain, 2 wrong input or usage, 1 a failed run"


class Formatter(argparse.HelpFormatter):
    """argparse's own, which asks shutil for the terminal's width and so imports all compressors, even to parse."""

    def __init__(self, prog: str) -> None:
        try:
            width = int(os.environ.get("COLUMNS") or os.get_terminal_size(1).columns)
        except (OSError, ValueError):  # no terminal, or COLUMNS is no number
            width = 80
        super().__init__(prog, width=max(40, width - 2))


class Parser(argparse.ArgumentParser):
    """A parser whose complaints about what was typed cannot steer a terminal."""

    def error(self, message: str) -> NoReturn:
        """Print the usage and the complaint, every line of it made safe, and leave with 2."""
        from lora_spec.printing import printable

        super().error(" ".join(printable(line, 400) for line in message.splitlines()))


def build_parser(chosen: str | None) -> Parser:
    """Return the parser; only the chosen sub-command is imported and has its arguments."""
    parser = Parser(
        prog="lora-spec",
        formatter_class=Formatter,
        description="Decide how speculative decoding should be deployed for each new LoRA adapter.",
        epilog=_EXIT_STATUS,
    )
    parser.add_argument("--version", action="store_true", help="print the version and leave")
    commands = parser.add_subparsers(dest="command", metavar="COMMAND")
    for name, command in COMMANDS.items():
        sub = commands.add_parser(
            name, help=command.help, description=command.help, epilog=_EXIT_STATUS, formatter_class=Formatter
        )
        if name == chosen:
            module = importlib.import_module(command.module)
            module.add_arguments(sub)
            sub.set_defaults(run=module.run)
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command line and return the exit code."""
    words = list(sys.argv[1:] if arguments is None else arguments)
    gc.set_threshold(_GC_THRESHOLD)
    _open_stderr()
    try:
        return _run(words)
    except LoraSpecError as err:
        return _report(err, as_json="--json" in words)
    except BrokenPipeError:
        # The reader (head, less) has gone: not our fault, and nothing more can be said.
        _abandon_stdout()
        return exit_codes.OK
    except OSError as err:
        return _report_os_error(err)
    except KeyboardInterrupt:
        _say_on_stderr("interrupted")
        return 130
    except RecursionError:
        _say_on_stderr("the input is nested too deep")
        return exit_codes.WRONG_INPUT


def _run(words: list[str]) -> int:
    chosen = next((word for word in words if not word.startswith("-")), None)
    try:
        parser = build_parser(chosen)
    except ModuleNotFoundError as err:
        _say_on_stderr(f"{chosen} needs {err.name}, which is not installed")
        return exit_codes.WRONG_INPUT
    try:
        args = parser.parse_args(words)
    except SystemExit as leaving:  # argparse has printed help or the usage error
        return int(leaving.code or 0)
    if args.version:
        from lora_spec import __version__

        if sys.stdout is not None:
            sys.stdout.write(f"lora-spec {__version__}\n")
        return exit_codes.OK
    if args.command is None:
        parser.print_help(sys.stderr)
        return exit_codes.WRONG_INPUT
    code = args.run(args)
    if sys.stdout is not None:
        sys.stdout.flush()
    return code


def _open_stderr() -> None:
    """Give a process that was started with a closed stderr one that goes nowhere: else argparse writes on stdout."""
    if sys.stderr is None:
        sys.stderr = Path(os.devnull).open("w")  # noqa: SIM115 - open until the end, as the one it stands for


def _say_on_stderr(text: str) -> None:
    from lora_spec.cli.output import tell

    tell(f"lora-spec: {text}")


def _report_os_error(err: OSError) -> int:
    if err.filename is None:  # a stream and no file: stdout is closed, or its disk is full
        _say_on_stderr(f"the answer could not be written ({err.strerror or err})")
        _abandon_stdout()
        return exit_codes.FAILED
    from lora_spec.cli.os_errors import told_os_error

    message, code = told_os_error(err)
    _say_on_stderr(message)
    return code


def _abandon_stdout() -> None:
    from lora_spec.cli.output import abandon

    if sys.stdout is not None:
        abandon(sys.stdout)


def _report(err: LoraSpecError, *, as_json: bool) -> int:
    from lora_spec.cli.output import print_json, tell

    tell(f"lora-spec: {err}")
    if as_json:
        codes = list(err.codes) if isinstance(err, AdapterError) else []
        print_json({"schema_version": "1", "status": "error", "codes": codes, "message": str(err)})
    return exit_codes.WRONG_INPUT


if __name__ == "__main__":
    sys.exit(main())
