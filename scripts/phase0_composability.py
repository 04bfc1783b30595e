"""Lay measured cells over the full matrix of engine features and say what to run instead of what does not work.

Without observations every cell is contract-only: the matrix says what could be asked for, and nothing of what works.
Needs no engine.
"""

import argparse
from pathlib import Path

from lora_spec.cli.by_hand import by_hand
from lora_spec.cli.script import run_script
from lora_spec.config import tier_holding
from lora_spec.measurement.composability.cells import enumerate_cells
from lora_spec.measurement.composability.fallback import fallback_policy
from lora_spec.measurement.composability.matrix import lay_over, matrix_csv
from lora_spec.measurement.composability.observations import read_observations
from lora_spec.plots.composability_table import composability_table
from lora_spec.plots.saving import csv_bytes
from lora_spec.provenance import collect_provenance, sha256_of_file
from lora_spec.results import write_bytes_atomically, write_result


def main(args: argparse.Namespace) -> None:
    """Run the script."""
    tier = tier_holding(args.config)
    config, path = tier.phase0_runtime, args.observations_json
    folder = args.output_dir or by_hand(tier.name, "phase0")
    cells = enumerate_cells(config.axes, config.pruning)
    known = {cell.cell_id for cell in cells}
    seen = path and read_observations(path, known_ids=known, vllm_version=config.vllm_version, tier=tier.name)
    rows = lay_over(cells, seen.cells if seen else {})
    made_of = {"phase0_runtime": config.to_dict(), "observations_sha256": path and sha256_of_file(path)}
    common = {
        "evidence": "measured" if seen else "contract-only",
        "tier": tier.name,
        "provenance": collect_provenance(config=made_of, seed=None),
    }
    semantics = list(seen.cache_semantics.values()) if seen else []
    matrix = {"vllm_version": config.vllm_version, "cells": rows, "cache_semantics": semantics}
    policy = {"vllm_version": config.vllm_version, **fallback_policy(rows, config.fallback_weights)}
    table = args.figure_table and csv_bytes(composability_table(rows, tier))
    write_result(folder / "matrix.json", kind="composability_matrix", payload=matrix, **common)
    write_bytes_atomically(folder / "matrix.csv", matrix_csv(rows))
    write_result(folder / "fallback_policy.json", kind="fallback_policy", payload=policy, **common)
    if args.figure_table:
        write_bytes_atomically(args.figure_table, table)
    print(f"{len(rows)} cells, {len(seen.cells) if seen else 0} measured: {folder}")


parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
parser.add_argument(
    "--config",
    type=Path,
    default=Path("configs/phase0_runtime.yaml"),
    help="phase0_runtime.yaml in its tier's folder (default: %(default)s)",
)
parser.add_argument("--observations-json", type=Path, help="what phase0_vllm_runner --execute measured")
parser.add_argument("--output-dir", type=Path, help="where matrix and policy go (default: results/TIER/by_hand/phase0)")
parser.add_argument("--figure-table", type=Path, help="also write the table of figure 1 here; needs observations")

if __name__ == "__main__":
    run_script(parser, main)
