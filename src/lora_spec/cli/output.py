"""Print JSON on stdout and people's text on stderr, with nothing in it that could steer a terminal."""

import json
import sys
from typing import Any

from lora_spec.printing import printable


def print_json(data: Any) -> None:
    """Print one JSON object on one line of stdout, in ASCII; strict JSON, without NaN."""
    text = json.dumps(data, allow_nan=False).replace("\x7f", "\\u007f")
    sys.stdout.write(text + "\n")


def tell(text: str) -> None:
    """Print text for people on stderr, every line made safe."""
    for line in text.splitlines() or [""]:
        sys.stderr.write(printable(line, 4000) + "\n")
