"""Adapter folders, a predictor fitted on some of them, and a cost model: all that a diagnosis needs, made by hand."""

import json
from pathlib import Path

import numpy as np
from safetensors.numpy import save_file

from lora_spec.cost_model import CostModel
from lora_spec.features import features_record
from lora_spec.predictors import fit_and_hold_out
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord
from lora_spec.results import write_result

DEPTHS = (0, 1, 2, 3, 4)
NUM_SOURCES, PER_SOURCE, NUM_DRAFTS = 12, 2, 20_000
GATE = {
    "standing_num_speculative_tokens": 3,
    "predictor": {
        "model": "elastic_net",
        "mode": "checkpoint_only",
        "elastic_net": {"penalties": [0.003], "l1_ratios": [0.5]},
        "num_folds": 4,
        "min_adapters": 4,
        "min_trials_per_position": 30,
        "max_ood_quantile": 0.95,
    },
}


def write_adapter(folder: Path, strength: float, *, seed: int, rank: int = 4, **config) -> Path:
    """Write a PEFT folder of two layers whose update's norm is proportional to ``strength``."""
    rng = np.random.default_rng(seed)
    folder.mkdir(parents=True)
    tensors = {}
    for layer in range(2):
        for module in ("q_proj", "v_proj"):
            name = f"base_model.model.model.layers.{layer}.self_attn.{module}"
            tensors[f"{name}.lora_A.weight"] = rng.standard_normal((rank, 16)).astype(np.float32)
            tensors[f"{name}.lora_B.weight"] = (strength * rng.standard_normal((16, rank))).astype(np.float32)
    save_file(tensors, folder / "adapter_model.safetensors")
    settings = {"peft_type": "LORA", "task_type": "CAUSAL_LM", "r": rank, "lora_alpha": rank}
    settings |= {"target_modules": ["q_proj", "v_proj"], **config}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def rates_of(strength: float, depth: int) -> np.ndarray:
    """Return a_k of an adapter: the stronger the update, the less is accepted."""
    logits = 1.0 - 1.5 * np.log(strength) - 0.2 * np.arange(1, depth + 1)
    return np.cumprod(1 / (1 + np.exp(-logits)))


def records_of(name: str, strength: float, *, base_strength: float = 0.3) -> tuple[PromptRecord, ...]:
    """Return the counts of an adapter and of its base at every depth, the base's as of an update of some strength."""
    records = []
    for arm, served, power in (("adapted", name, strength), ("base", None, base_strength)):
        for depth in DEPTHS[1:]:
            accepted = tuple(int(NUM_DRAFTS * a) for a in rates_of(power, depth))
            counts = AcceptanceCounts(NUM_DRAFTS, NUM_DRAFTS * depth, sum(accepted), accepted)
            records.append(PromptRecord("p", "own", arm, served, counts, 1, (1,), "stop"))
    return tuple(records)


def write_predictor(
    folder: Path, *, evidence: str = "measured", num_sources: int = NUM_SOURCES, level: float = 0.8
) -> Path:
    """Fit on adapters written below ``folder`` and return the export's path."""
    features, records, sources = [], [], {}
    for index in range(num_sources * PER_SOURCE):
        strength, name = float(np.exp(np.linspace(-2, 2, num_sources * PER_SOURCE)[index])), f"adapter-{index}"
        adapter = write_adapter(folder / "pool" / name, strength, seed=index)
        features.append(features_record(adapter, name=name))
        sha256 = features[-1]["adapter"]["weights_sha256"]
        records.append(AcceptanceRecord(name, sha256, records_of(name, strength)))
        sources[name] = f"source-{index % num_sources}"
    fitted = fit_and_hold_out(
        features, records, gate=GATE | {"level": level}, sources=sources, target_model="target", draft_model="drafter"
    )
    return _write(folder / "predictor.json", "predictor", fitted.predictor, evidence)


def write_cost_model(folder: Path, *, evidence: str = "measured", **context) -> Path:
    """Write a cost model in which each draft costs a fifth of a step alone and all of one in a crowd of 16."""
    median = np.array([[100 + 20 * k, 200 + 200 * k] for k in DEPTHS], dtype=float)
    model = CostModel(DEPTHS, (1, 16), median, median[None], {"lora_rank": 4, "num_trials": 3, **context})
    return _write(folder / "cost_model.json", "cost_model", model.to_dict(), evidence)


def _write(path: Path, kind: str, payload: dict, evidence: str) -> Path:
    write_result(path, kind=kind, evidence=evidence, tier="test", provenance={}, payload=payload)
    return path
