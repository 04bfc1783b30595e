"""Settings, names and helpers of all rules.

Rules hold only rules: helpers of some of them stand in the files ``*_helpers.smk``. No helper knows a tier by its name.
"""

import json
import re
import sys
from difflib import get_close_matches
from pathlib import Path

from lora_spec.config import load_tier
from lora_spec.errors import ConfigError
from lora_spec.provenance import code_digest

ROOT = Path(workflow.basedir)
if Path.cwd().resolve() != ROOT.resolve():
    raise WorkflowError(
        f"the workflow reads and writes below its own root; run it there: cd {ROOT}"
    )
CONFIG_KEYS = ("tier", "measurements", "pool")
if unknown := sorted(set(config) - set(CONFIG_KEYS)):
    raise WorkflowError(
        f"--config {unknown[0]}: no such key; there are {', '.join(CONFIG_KEYS)}"
    )


def check_profiled_rules():
    """Refuse resources for what no tier has among its rules; Snakemake takes a misspelt name without a word."""
    texts = [path.read_text() for path in (ROOT / "rules").glob("*.smk")]
    known = re.findall(
        r"^\s*(?:use )?(?:rule|checkpoint) (?:\w+ as )?(\w+)", "\n".join(texts), re.M
    )
    given = workflow.resource_settings
    for name in sorted({*given.overwrite_resources, *given.overwrite_threads}):
        if name not in known:
            near = get_close_matches(name, known, n=1) or ["one of rules/*.smk"]
            raise WorkflowError(
                f"a profile or the command line sets resources of {name}, and no rule has that name; write {near[0]}"
            )


check_profiled_rules()
try:
    TIER = load_tier(ROOT, config.get("tier", "mini"))
except ConfigError as error:
    raise WorkflowError(str(error)) from None

MEASUREMENTS = config.get("measurements", TIER.models.default_measurements)
if MEASUREMENTS not in ("fresh", "shipped"):
    raise WorkflowError(
        f"--config measurements={MEASUREMENTS}: choose fresh or shipped"
    )

POOL = str(config.get("pool", "all"))


def pool_names():
    """Return the adapters that --config pool names: all, the pilot, or some by name with commas between them."""
    pool = TIER.adapter_pool
    if POOL == "all":
        return pool.names
    if POOL == "pilot" and pool.pilot:
        return pool.pilot
    wanted = POOL.split(",")
    if unknown := sorted(set(wanted) - set(pool.names)):
        raise WorkflowError(
            f"--config pool={POOL}: choose all, pilot where adapter_pool.yaml names one, or names of its adapters with "
            f"commas between them; there is no adapter {unknown[0]!r}"
        )
    return tuple(name for name in pool.names if name in wanted)


RUN = f"{TIER.name}-shipped" if MEASUREMENTS == "shipped" else TIER.name
RECORDS = f"reference/{TIER.name}" if MEASUREMENTS == "shipped" else f"results/{RUN}"
SERVING_PYTHON = ".venv-serving/bin/python"


def adapters_with_records():
    """Return the tier's adapters, all or the chosen ones; in a shipped run those of them whose records are shipped."""
    names = pool_names()
    if MEASUREMENTS == "fresh":
        return names
    folder = ROOT / RECORDS / "acceptance"
    return tuple(name for name in names if (folder / f"{name}.parquet").exists())


ADAPTERS = adapters_with_records()
# The pilot is measured first; the rest of the pool is screened after it. Without a pilot all are the pilot.
PILOT = tuple(name for name in ADAPTERS if name in TIER.adapter_pool.pilot) or ADAPTERS
SCREENED = tuple(name for name in ADAPTERS if name not in PILOT)
NUM_GPUS = 0 if TIER.models.engine.device == "cpu" else 1


def analysis_python():
    """Return this interpreter, as a path below the checkout where it lies there: params must not name machines."""
    here = Path(sys.executable)
    return str(here.relative_to(ROOT)) if here.is_relative_to(ROOT) else str(here)


def preloaded():
    """Return the OpenMP runtime that vLLM asks for on a CPU; on a GPU nothing is preloaded."""
    return ".venv-serving/lib/libiomp5.so" if TIER.models.engine.device == "cpu" else ""


def plain(block):
    """Return a config block as plain data."""
    return block.to_dict() if hasattr(block, "to_dict") else block


def as_json(block):
    """Return settings as one JSON text, the same for the same settings, for a script's flag."""
    return json.dumps(plain(block), sort_keys=True)


def chosen(block, *keys):
    """Return some keys of a config block as JSON, so that a rule depends on just what it reads."""
    return as_json({key: plain(block)[key] for key in keys})


def code(script):
    """Return a digest of a script and of the library modules behind it."""
    return code_digest(ROOT / "scripts" / f"{script}.py")


def flag(name, paths):
    """Return a flag with its paths as words for the shell, or none where there is no path."""
    return [name, *([paths] if isinstance(paths, str) else paths)] if paths else []


def records(kind, ext="json"):
    """Return the records of one kind for all adapters, measured by this run or shipped."""
    return [f"{RECORDS}/{kind}/{name}.{ext}" for name in ADAPTERS]


def domains():
    """Return adapter name to domain: the group that a split leaves out whole."""
    return {name: TIER.adapter_pool.find(name).domain for name in ADAPTERS}


def pair_names():
    """Return what numbers hold for: target and drafter by name, and the engine's version."""
    pair, engine = TIER.models.primary, TIER.models.engine
    return {
        "target_model": pair.target.name,
        "draft_model": pair.drafter.name,
        "engine": f"vLLM {engine.vllm_version} on {engine.device}, {engine.dtype}",
    }


def either(words):
    """Return a wildcard's constraint: one of these words and nothing else."""
    return "|".join(map(re.escape, words))
