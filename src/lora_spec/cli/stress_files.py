"""What the scripts of the stress room read and write: results with the table of their figure."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

from lora_spec.cli.output import tell
from lora_spec.cli.policy_result import read_policy_result
from lora_spec.joins import by_adapter
from lora_spec.plots.context import WATERMARK
from lora_spec.plots.registry import get_figure
from lora_spec.plots.saving import csv_bytes, save_figure
from lora_spec.plots.stress_rows import serving_stress_table
from lora_spec.policy.policy_file import Policy
from lora_spec.provenance import collect_provenance
from lora_spec.records import Evidence
from lora_spec.results import result_bytes, write_all_atomically
from lora_spec.stress.comparison import stress_payload
from lora_spec.stress.grid import run_grid
from lora_spec.stress.policies.base import Rates
from lora_spec.stress.smoke import TRAFFIC, smoke_grid

_LEVEL = 0.9
_SEED = 0


def write_stress(
    result: Path,
    table: Path,
    *,
    payload: Mapping[str, Any],
    evidence: Evidence,
    tier: str,
    provenance: dict[str, Any],
) -> None:
    """Write a ``serving_stress`` result and the table of its figure."""
    common = {"evidence": evidence, "tier": tier}
    rows = serving_stress_table(payload, **common)
    data = result_bytes(kind="serving_stress", provenance=provenance, payload=dict(payload), **common)
    write_all_atomically({result: data, table: csv_bytes(rows)})


def write_smoke_stress(folder: Path, *, threads: int) -> None:
    """Write a result on made-up numbers, its table and its figure, all marked as no evidence."""
    tell(f"{WATERMARK}: adapters, costs and traffic are made up")
    cells = list(run_grid(smoke_grid(seed=_SEED), folder / "cells", threads=threads))
    setup = "simulated engine, made-up step costs and adapters"
    payload = stress_payload(cells, level=_LEVEL, source="simulated", setup=setup)
    write_stress(
        folder / "serving_stress.json",
        folder / "serving_stress.csv",
        payload=payload,
        evidence="synthetic-smoke",
        tier="smoke",
        provenance=collect_provenance(config={"traffic": TRAFFIC}, seed=_SEED),
    )
    spec, table = get_figure("serving_stress"), serving_stress_table(payload, tier="smoke", evidence="synthetic-smoke")
    save_figure(spec.draw(table), table, folder / spec.stem)


def rates_by_adapter(items: Iterable[Mapping[str, Any]]) -> dict[str, Rates]:
    """Return a_1, a_2, ... by adapter, of measured summaries or of predictions."""
    named = by_adapter(items, lambda item: item["adapter"], what="estimates")
    return {name: falling(item["estimate"]["acceptance_rate_per_pos"]) for name, item in named.items()}


def falling(rates: Iterable[float]) -> Rates:
    """Return rates that fall strictly as fractions must: predictions may rise by the rounding of their last digit."""
    found: list[float] = []
    for rate in rates:
        found.append(min(max(rate, 0.0), found[-1] if found else 1.0))
    return tuple(found)


def read_policy(path: Path, *, tier: str) -> Policy:
    """Return a tier's measured policy, as engines read it."""
    return read_policy_result(path, tier=tier)[0]


def validation_lines(payload: Mapping[str, Any]) -> Iterator[str]:
    """Yield what a validation of the simulator says, a line per scenario and policy."""
    for item in payload["scenarios"]:
        place = f"{item['pattern']}, cache {item['cache_mode']}, {item['request_rate_req_s']:g} req/s"
        told = {True: "passed", False: "failed"}[item["is_passed"]]
        yield f"{place}: {told}, Kendall's tau of TPOT {item['kendall_tau_tpot']}"
        noise = "unknown with one trial" if item["run_to_run_noise"] is None else f"{item['run_to_run_noise']:.1%}"
        allowed = f"up to {item['max_tpot_mape']:.1%} allowed"
        yield f"  mean error of TPOT {item['tpot_mape']:.1%}, {allowed}; noise of a trial {noise}"
        clear, turned = item["num_clear_pairs"], item["num_reversed_clear_pairs"]
        yield f"  {clear} of {item['num_pairs']} pairs of policies told apart live, {turned} of them ordered otherwise"
        for policy, errors in item["policies"].items():
            throughput, tpot = errors["output_throughput_error"], errors["p50_tpot_error"]
            yield f"  {policy}: throughput {throughput:+.1%}, median TPOT {tpot:+.1%}"
