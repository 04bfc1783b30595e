"""Settings, names and helpers. Rules hold only rules; nothing here knows a tier by its name."""

import json
import sys
from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.errors import ConfigError
from lora_spec.provenance import code_digest

TIER_NAME = config.get("tier", "mini")
ROOT = Path(workflow.basedir)
try:
    TIER = load_tier(ROOT, TIER_NAME)
except ConfigError as error:
    raise WorkflowError(str(error)) from None

MEASUREMENTS = config.get("measurements", TIER.models.default_measurements)
if MEASUREMENTS not in ("fresh", "shipped"):
    raise WorkflowError(f"--config measurements={MEASUREMENTS}: choose fresh or shipped")
unknown_keys = set(config) - {"tier", "measurements"}
if unknown_keys:
    raise WorkflowError(f"--config {', '.join(sorted(unknown_keys))}: unknown; the keys are tier and measurements")

IS_SHIPPED = MEASUREMENTS == "shipped"
RUN = f"{TIER_NAME}-shipped" if IS_SHIPPED else TIER_NAME
RECORDS = f"reference/{TIER_NAME}" if IS_SHIPPED else f"results/{RUN}"
MODES = ("measured", "checkpoint_only")
FIGURES = ("fig02_effect", "fig03_predicted", "fig05_ranks", "fig06_decision_map", "fig07_cost_model")
ANALYSIS_PYTHON = sys.executable
SERVING_PYTHON = ".venv-serving/bin/python"


def adapters_with_records():
    """Return the tier's adapters: all of them, or in a shipped run those whose records are shipped."""
    names = TIER.adapter_pool.names
    if not IS_SHIPPED:
        return names
    return tuple(name for name in names if Path(f"{RECORDS}/acceptance/{name}.json").exists())


ADAPTERS = adapters_with_records()


def settings(*path):
    """Return one block of the tier's settings as JSON, so that a rule depends on just what it reads."""
    block = TIER
    for step in path:
        block = block[step] if isinstance(block, dict) else getattr(block, step)
        block = block.to_dict() if hasattr(block, "to_dict") else block
    return json.dumps(block, sort_keys=True)


def settings_of(file, *keys):
    """Return some top-level keys of one config file as JSON."""
    block = getattr(TIER, file).to_dict()
    return json.dumps({key: block[key] for key in keys}, sort_keys=True)


def code(script):
    """Return a digest of a script and of the library modules behind it."""
    return code_digest(ROOT / "scripts" / f"{script}.py")


def row_of(wildcards):
    """Return the pool's row of the adapter of a job, as JSON."""
    return json.dumps(TIER.adapter_pool.find(wildcards.adapter).to_dict(), sort_keys=True)


def adapter_dir(name):
    """Return the folder of an adapter: shipped in the repository, or made by this run."""
    row = TIER.adapter_pool.find(name)
    return row.path if row.source == "shipped" else f"results/{RUN}/adapters/{name}"


def adapter_dir_of(wildcards):
    """Return the folder of the adapter of a job."""
    return adapter_dir(wildcards.adapter)


def all_adapter_dirs(wildcards):
    """Return the folders of all adapters, in pool order."""
    return [adapter_dir(name) for name in ADAPTERS]


def drafter_layers(wildcards):
    """Return the drafter's trained layers: shipped, or trained by this run where the config says so."""
    drafter = TIER.models.primary.drafter
    return f"results/{RUN}/models/drafter_layers.safetensors" if drafter.retrain else drafter.source.path


def records(kind):
    """Return the records of one kind for all adapters, measured by this run or shipped."""
    return [f"{RECORDS}/{kind}/{name}.json" for name in ADAPTERS]


STEP_TIMES = f"{RECORDS}/step_times.json"
