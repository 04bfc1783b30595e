"""Adapters with a known law: logit r_k is linear in the first column, counts are its expectation."""

import numpy as np

from lora_spec.predictors.base import FitSettings
from lora_spec.predictors.columns import CheckpointOnlyColumns
from lora_spec.predictors.examples import TrainingExample
from lora_spec.predictors.fitting import fit_predictor
from lora_spec.records import AcceptanceCounts, AcceptanceRecord, PromptRecord

DEPTH = 4
NUM_DRAFTS = 100_000
NUM_COLUMNS = 5


def true_rates(strength: float, depth: int = DEPTH) -> np.ndarray:
    """Return a_k where logit r_k = 1 - 0.3 k - strength."""
    logits = 1 - 0.3 * np.arange(1, depth + 1) - strength
    return np.cumprod(1 / (1 + np.exp(-logits)))


def counts_of(rates: np.ndarray, num_drafts: int = NUM_DRAFTS) -> AcceptanceCounts:
    """Return counts with exactly these rates, to one draft."""
    accepted = tuple(round(float(a) * num_drafts) for a in rates)
    return AcceptanceCounts(num_drafts, num_drafts * len(rates), sum(accepted), accepted)


def columns_of(point: np.ndarray) -> CheckpointOnlyColumns:
    """Name the coordinates of a point."""
    return CheckpointOnlyColumns({f"column_{i}": float(value) for i, value in enumerate(point)} | {"layers": 30.0})


def make_examples(num_sources: int, per_source: int, *, seed: int = 0, noise: float = 0.0) -> list[TrainingExample]:
    """Draw adapters; ``noise`` is the spread of what the columns do not explain."""
    rng = np.random.default_rng(seed)
    examples = []
    for index in range(num_sources * per_source):
        point = rng.uniform(-1, 1, NUM_COLUMNS)
        strength = point[0] + noise * rng.standard_normal()
        by_depth = tuple(counts_of(true_rates(strength, k)) for k in range(1, DEPTH + 1))
        base = tuple(counts_of(true_rates(0.0, k)) for k in range(1, DEPTH + 1))
        name, source = f"adapter-{index}", f"source-{index % num_sources}"
        examples.append(TrainingExample(name, f"sha-{index}", source, columns_of(point), by_depth, base))
    return examples


def make_tables(num_sources: int = 6, per_source: int = 2, **law) -> tuple[list, list, dict]:
    """Return features payloads, acceptance records and sources of such adapters."""
    features, records, sources = [], [], {}
    for example in make_examples(num_sources, per_source, **law):
        adapter = {"name": example.adapter, "weights_sha256": example.adapter_sha256}
        groups = {"checkpoint_only": dict(example.columns.values)}
        features.append({"adapter": adapter, "status": "ok", "codes": [], "message": "", "columns": groups})
        replay = tuple(
            PromptRecord("p", "own", arm, example.adapter if arm == "adapted" else None, counts, 1, (1,), "stop")
            for arm, by_depth in (("adapted", example.counts_by_depth), ("base", example.base_counts_by_depth))
            for counts in by_depth
        )
        records.append(AcceptanceRecord(example.adapter, example.adapter_sha256, replay))
        sources[example.adapter] = example.source
    return features, records, sources


def fit(examples: list[TrainingExample], *, level: float = 0.9, min_adapters: int = 0, **options) -> dict:
    """Fit the elastic net with almost no penalty unless told otherwise."""
    return fit_predictor(
        "elastic_net",
        examples,
        settings=FitSettings(level=level, standing_num_speculative_tokens=3, min_adapters=min_adapters),
        options={"penalties": (1e-4,), "l1_ratios": (0.5,)} | options,
        target_model="target",
        draft_model="drafter",
    )
