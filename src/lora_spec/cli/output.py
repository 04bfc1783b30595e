"""Print JSON on stdout and people's text on stderr, with nothing in it that could steer a terminal.

A broken stderr never costs the answer: what people would have read is dropped. A broken stdout is an error.
"""

import json
import os
import sys
from typing import Any, TextIO

from lora_spec.printing import printable


def json_line(data: Any) -> str:
    """Return one JSON object on one line, in ASCII; strict JSON: ValueError where it holds NaN or Infinity."""
    return json.dumps(data, allow_nan=False).replace("\x7f", "\\u007f")


def print_json(data: Any) -> None:
    """Print one JSON object on one line of stdout.

    Raises
    ------
    OSError
        Stdout is closed or cannot be written.
    """
    say(json_line(data))


def say(text: str) -> None:
    """Print a line of an answer on stdout, whatever its encoding; raises like :func:`print_json`."""
    if sys.stdout is None:
        raise OSError(9, "standard output is closed")
    encoding = sys.stdout.encoding or "utf-8"
    sys.stdout.write(text.encode(encoding, "backslashreplace").decode(encoding) + "\n")


def tell(text: str) -> None:
    """Print text for people on stderr, every line made safe."""
    if sys.stderr is None:
        return
    try:
        for line in text.splitlines() or [""]:
            safe = printable(line, 4000).encode(sys.stderr.encoding or "utf-8", "backslashreplace")
            sys.stderr.write(safe.decode(sys.stderr.encoding or "utf-8") + "\n")
        sys.stderr.flush()
    except (OSError, ValueError):
        abandon(sys.stderr)


def flush_answer() -> None:
    """Hand what was said to the system, so that a full or closed stdout is noticed; raises like :func:`print_json`."""
    if sys.stdout is not None:
        sys.stdout.flush()


def abandon(stream: TextIO) -> None:
    """Let what is left in a broken stream go nowhere, so that the interpreter does not fail over it on leaving."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    except (OSError, ValueError):
        return  # a stream without a descriptor, as in a test
