"""JSON schemas of the config files, for editors; generated from the models, never written by hand."""

import json
from pathlib import Path

from lora_spec.config.tier import CONFIG_FILES

_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def render_schemas() -> dict[str, str]:
    """Return file name -> text of each schema."""
    return {
        f"{name}.schema.json": json.dumps({"$schema": _DIALECT, **model.model_json_schema()}, indent=1) + "\n"
        for name, model in CONFIG_FILES.items()
    }


def write_schemas(folder: Path) -> list[Path]:
    """Write all schemas into a folder and return those that changed."""
    folder.mkdir(parents=True, exist_ok=True)
    changed = []
    for name, text in render_schemas().items():
        path = folder / name
        if not path.exists() or path.read_text() != text:
            path.write_text(text)
            changed.append(path)
    return changed
