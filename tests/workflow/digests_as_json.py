"""Print the code digest of every script as JSON: as the library stands, and after a change of each of some modules.

python digests_as_json.py errors.py policy/control.py
"""

import json
import sys
from pathlib import Path

import lora_spec
from lora_spec.provenance import code_digest


def digests() -> dict[str, str]:
    """Return script to digest."""
    return {script.stem: code_digest(script) for script in sorted(Path("scripts").glob("*.py"))}


def main() -> None:
    """Print them, and leave the modules as they were."""
    package, found = Path(lora_spec.__file__).parent, {"": digests()}
    for module in sys.argv[1:]:
        path = package / module
        before = path.read_bytes()
        path.write_bytes(before + b"# changed\n")
        try:
            found[module] = digests()
        finally:
            path.write_bytes(before)
    print(json.dumps(found))


if __name__ == "__main__":
    main()
