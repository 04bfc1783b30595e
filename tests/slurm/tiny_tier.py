"""A checkout of the project with one more tier, ``tiny``: a random pair and four adapters, measured in seconds."""

import hashlib
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).parents[2]
TIER = "tiny"
ADAPTERS = ("weak", "strong", "stronger", "strongest")
_COPIED = ("Snakefile", "rules", "scripts", "profiles", "report")
_LINKED = (".venv-serving", "reference")
_SERVING_PYTHON = ROOT / ".venv-serving" / "bin" / "python"


def can_serve() -> bool:
    """Return whether the environment that the submitted rules run in is there."""
    return _SERVING_PYTHON.exists()


def build_models(folder: Path) -> Path:
    """Write the pair and its adapters with the serving environment, and return their folder."""
    command = [str(_SERVING_PYTHON), "-P", str(Path(__file__).with_name("build_tiny_models.py")), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return folder


def make_checkout(root: Path, models: Path) -> Path:
    """Lay out a checkout whose tier ``tiny`` has its pair in place, as if an earlier run had built it."""
    root.mkdir(parents=True)
    for part in _COPIED:
        copy = shutil.copytree if (ROOT / part).is_dir() else shutil.copy2
        copy(ROOT / part, root / part)
    for part in _LINKED:
        (root / part).symlink_to(ROOT / part)
    wheel = root / f"resources/wheels/{TIER}/target.whl"
    wheel.parent.mkdir(parents=True)
    wheel.touch()
    os.utime(wheel, (0, 0))
    for name in ("target", "drafter"):
        shutil.copytree(models / name, root / f"results/{TIER}/models/{name}")
    shutil.copytree(models / "adapters", root / "adapters")
    _write_configs(root)
    return root


def _write_configs(root: Path) -> None:
    folder = root / "configs" / TIER
    folder.mkdir(parents=True)
    for source in (ROOT / "configs" / "mini").glob("*.yaml"):
        settings = yaml.safe_load(source.read_text())
        change = _CHANGES.get(source.stem)
        if change is not None:
            change(settings, root)
        (folder / source.name).write_text(yaml.safe_dump(settings))


def let_others_compute(checkout: Path) -> None:
    """Let timings go on beside other programs: nothing is claimed of these; before, they wait for a quiet machine."""
    path = checkout / "configs" / TIER / "phase1_measurement.yaml"
    settings = yaml.safe_load(path.read_text())
    settings["step_time"]["max_other_cores"] = 1000.0
    path.write_text(yaml.safe_dump(settings))


def _models(settings: dict[str, Any], root: Path) -> None:
    settings["tier"] = TIER
    settings["engine"] |= {"dtype": "float32", "max_num_seqs": 8, "num_threads": 1}


def _adapter_pool(settings: dict[str, Any], root: Path) -> None:
    row = next(row for row in settings["adapters"] if row["name"] == "upper_case")
    row |= {"rank": 4, "alpha": 8, "target_modules": ["q_proj", "v_proj"]}
    settings["adapters"] = [
        {**row, "name": name, "seed": seed, "path": f"adapters/{name}", "sha256": _sha256(root / "adapters" / name)}
        for seed, name in enumerate(ADAPTERS)
    ]


def _sha256(adapter: Path) -> str:
    return hashlib.sha256((adapter / "adapter_model.safetensors").read_bytes()).hexdigest()


def _prompts(settings: dict[str, Any], root: Path) -> None:
    own, common = settings["sets"]
    own |= {"num_prompts": 6, "max_tokens": 24, "sha256": {"upper_case": None}}
    common |= {"num_prompts": 2, "max_tokens": 24}
    common["sha256"] = dict.fromkeys(common["sha256"])


def _phase0_runtime(settings: dict[str, Any], root: Path) -> None:
    settings["adapters"]["names"] = list(ADAPTERS[:3])


def _phase1_measurement(settings: dict[str, Any], root: Path) -> None:
    settings |= {"min_drafts": 1, "num_bootstrap_draws": 50}
    settings["step_time"] |= {"num_trials": 3, "num_steps": 2, "lora_rank": 4}


_CHANGES = {
    "models": _models,
    "adapter_pool": _adapter_pool,
    "prompts": _prompts,
    "phase0_runtime": _phase0_runtime,
    "phase1_measurement": _phase1_measurement,
}
