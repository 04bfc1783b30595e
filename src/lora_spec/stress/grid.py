"""The grid of simulated runs: traffic patterns x cache modes x rates x seeds x policies, in processes, cell by cell."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from lora_spec.errors import ResultError
from lora_spec.provenance import sha256_of_json
from lora_spec.results import read_json, write_json_atomically
from lora_spec.stress.policies.base import MakeChooser, Situation
from lora_spec.stress.policies.registry import make_candidates
from lora_spec.stress.simulator.fleet import Fleet, SimulatedRun, simulate
from lora_spec.stress.summary import RunSummary, ServiceLevel, summarise
from lora_spec.traffic.schedule import ScheduledRequest, schedule_requests

SCHEMA_VERSION = "1"


@dataclass(frozen=True)
class Cell:
    """One run of the grid; ``key`` names it."""

    pattern: str
    cache_mode: str
    request_rate_req_s: float
    seed: int
    policy: str

    @property
    def key(self) -> str:
        """Return a name that is a file's too."""
        parts = (self.pattern, self.cache_mode, f"{self.request_rate_req_s:g}", str(self.seed), self.policy)
        return "-".join(parts)


@dataclass(frozen=True)
class Grid:
    """All that a grid is made of.

    Parameters
    ----------
    traffic
        The values of ``traffic.yaml``.
    fleet
        Engines and adapters; ``max_loras`` and ``max_cpu_loras`` are set by the cache mode.
    situation
        What policies are made from; shares are those that the pattern makes, set for every cell.
    policies
        Names of policies; must hold what gains and regrets are told against.
    inputs_sha256
        Says which cost model, acceptances and policy file stand behind: cells of others are not taken over.
    drain_s
        Seconds after the last arrival in which requests may still end.
    """

    traffic: Mapping[str, Any]
    fleet: Fleet
    situation: Situation
    policies: tuple[str, ...]
    inputs_sha256: str
    drain_s: float = 120.0

    def cells(self) -> tuple[Cell, ...]:
        """Return all cells, the policies innermost."""
        return tuple(
            Cell(pattern["name"], mode["name"], rate, seed, policy)
            for pattern in self.traffic["patterns"]
            for mode in self.traffic["cache_modes"]
            for rate in self.traffic["request_rates_req_s"]
            for seed in self.traffic["seeds"]
            for policy in self.policies
        )

    def digest(self, cell: Cell) -> str:
        """Return what a finished cell must have been made from to be taken over."""
        plain = {
            "schema_version": SCHEMA_VERSION,
            "cell": asdict(cell),
            "traffic": self.traffic,
            "server": asdict(self.fleet.server),
            "fleet": [self.fleet.num_engines, self.fleet.router, len(self.fleet.adapters)],
            "inputs_sha256": self.inputs_sha256,
            "drain_s": self.drain_s,
        }
        return sha256_of_json(plain)


def run_grid(grid: Grid, folder: Path, *, threads: int) -> Iterator[dict[str, Any]]:
    """Yield the cells in their order; each is written when it is done and not run again while it is the same.

    Parameters
    ----------
    folder
        Where cells are kept.
    threads
        Processes at once.

    Yields
    ------
    Plain data: the cell, the label of the candidate taken, and the summary of the run.
    """
    from joblib import Parallel, delayed

    jobs = (delayed(_kept_or_run)(grid, cell, folder) for cell in grid.cells())
    yield from Parallel(n_jobs=threads, return_as="generator")(jobs)


def _kept_or_run(grid: Grid, cell: Cell, folder: Path) -> dict[str, Any]:
    path, digest = folder / f"{cell.key}.json", grid.digest(cell)
    if (kept := _kept(path, digest)) is not None:
        return kept
    found = {**run_cell(grid, cell), "digest": digest}
    write_json_atomically(path, found)
    return found


def _kept(path: Path, digest: str) -> dict[str, Any] | None:
    """Return a finished cell; one that is of other inputs or cannot be read is run again."""
    if not path.exists():
        return None
    try:
        found = read_json(path)
    except ResultError:
        return None
    return found if isinstance(found, dict) and found.get("digest") == digest else None


def run_cell(grid: Grid, cell: Cell) -> dict[str, Any]:
    """Run a policy's candidates on the cell's requests and return the best, as plain data.

    Best is, in hindsight, what lets most requests end, and of equals what takes the least mean time per request.
    """
    adapters = [adapter.name for adapter in grid.fleet.adapters]
    requests = schedule_requests(
        grid.traffic, cell.pattern, adapters=adapters, rate_req_s=cell.request_rate_req_s, seed=cell.seed
    )
    situation = replace(grid.situation, shares=_shares(requests), seed=cell.seed)
    candidates = make_candidates(cell.policy, situation)
    runs = {label: _summary(grid, cell, requests, make) for label, make in candidates.items()}
    label = min(runs, key=lambda label: (runs[label].num_failed, runs[label].times_ms["e2el_ms"]["mean"]))
    return {"cell": asdict(cell), "candidate": label, "summary": runs[label].to_dict()}


def _summary(grid: Grid, cell: Cell, requests: Sequence[ScheduledRequest], make: MakeChooser) -> RunSummary:
    run = run_once(grid, cell, requests, make)
    return summarise(
        run.records,
        warmup_s=grid.traffic["warmup_s"],
        service_level=ServiceLevel(**grid.traffic["service_level"]),
        counts=run.counts,
        num_adapter_loads=run.num_adapter_loads,
        num_cached_adapter_loads=run.num_cached_adapter_loads,
    )


def run_once(grid: Grid, cell: Cell, requests: Sequence[ScheduledRequest], make: MakeChooser) -> SimulatedRun:
    """Return one run with the adapter slots of the cell's cache mode."""
    share = next(mode["slot_share"] for mode in grid.traffic["cache_modes"] if mode["name"] == cell.cache_mode)
    named = [adapter for adapter in grid.fleet.adapters if adapter.name is not None]
    slots = max(1, math.ceil(share * len(named)))
    # Where slots are short, main memory is as well, or every load would be a copy.
    server = replace(grid.fleet.server, max_loras=slots, max_cpu_loras=slots)
    return simulate(
        requests,
        replace(grid.fleet, server=server),
        make,
        seed=cell.seed,
        warmup_s=grid.traffic["warmup_s"],
        drain_s=grid.drain_s,
    )


def _shares(requests: Sequence[ScheduledRequest]) -> dict[str | None, float]:
    """Return each adapter's share of the requests: which adapter is hot is drawn with them."""
    shares: dict[str | None, float] = {}
    for request in requests:
        shares[request.adapter] = shares.get(request.adapter, 0.0) + 1 / len(requests)
    return shares
