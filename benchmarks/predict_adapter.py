"""How long one prediction takes, features in hand: acceptance with its interval and the word on its distance.

    python benchmarks/predict_adapter.py

Fits each predictor on made-up adapters of as many sources as the study has, reads its export back from JSON, prepares
it once, and times one prediction on one core; no measurement and no engine is needed. Times of an export of your own:
``--predictor FILE --features FILE``. The least and the median of the repeats are given, with the machine's load.
"""

import argparse
import json
import os
import statistics
import time
from pathlib import Path
from typing import Any

from lora_spec.config import read_config
from lora_spec.config.gate import GateConfig
from lora_spec.features.payload import read_features
from lora_spec.predictors import column_set_of, fit_predictor, fit_settings, prepare, variant_options
from lora_spec.predictors.joining import examples_of
from lora_spec.predictors.payload import read_predictor
from lora_spec.predictors.registry import VARIANTS
from lora_spec.predictors.smoke import make_up_adapters, without_search

TARGET_MS = 1.0
NUM_SOURCES, PER_SOURCE = 18, 3


def time_prediction(name: str, predictor: dict[str, Any], groups: dict[str, Any], repeats: int) -> None:
    """Print how long one prediction takes."""
    columns = column_set_of(predictor["mode"]).from_groups(groups)
    started = time.perf_counter()
    prepared = prepare(predictor)
    preparing_ms = 1e3 * (time.perf_counter() - started)
    times_ms = []
    for _ in range(repeats + 1):
        started = time.perf_counter()
        prepared.predict(columns)
        times_ms.append(1e3 * (time.perf_counter() - started))
    print(
        f"{name:20} {predictor['num_adapters']:4} adapters {predictor['num_sources']:3} sources "
        f"{len(predictor['columns']):3} columns   once {preparing_ms:7.3f} ms   each: least {min(times_ms[1:]):7.3f}, "
        f"median {statistics.median(times_ms[1:]):7.3f} ms, target {TARGET_MS:g} ms"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=300)
    parser.add_argument("--gate", type=Path, default=Path("configs/gate.yaml"))
    parser.add_argument("--predictor", type=Path, help="a measured export; needs --features")
    parser.add_argument("--features", type=Path)
    args = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:1])
    print(f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors")
    if args.predictor:
        exported = read_predictor(args.predictor).payload
        groups = read_features(args.features)["columns"]
        time_prediction(exported["predictor"], exported, groups, args.repeats)
        return
    gate = without_search(read_config(args.gate, GateConfig).to_dict())
    made = make_up_adapters(seed=0, num_sources=NUM_SOURCES, per_source=PER_SOURCE)
    examples = examples_of(
        made.features, made.records, mode=gate["predictor"]["mode"], sources=made.sources, prompt_set="own"
    )
    names = {"target_model": "made-up target", "draft_model": "made-up drafter"}
    for name in VARIANTS:
        options = variant_options(gate, name)
        fitted = fit_predictor(name, examples, settings=fit_settings(gate), options=options, **names)
        time_prediction(name, json.loads(json.dumps(fitted)), made.features[0]["columns"], args.repeats)


if __name__ == "__main__":
    main()
