"""Write the JSON schemas of the config files from their models; run it after changing a model."""

import sys
from pathlib import Path

from lora_spec.config.schemas import write_schemas

if __name__ == "__main__":
    root = Path(__file__).resolve().parent.parent
    for path in write_schemas(root / "configs" / "schemas"):
        sys.stdout.write(f"wrote {path.relative_to(root)}\n")
