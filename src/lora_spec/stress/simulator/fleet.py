"""A run: a schedule of requests through one engine or a fleet of equal ones."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from lora_spec.cost_model.step_cost import StepCost
from lora_spec.stress.draft_counts import DraftCounts
from lora_spec.stress.policies.base import Chooser
from lora_spec.stress.request_record import RequestRecord
from lora_spec.stress.simulator.engine import Engine
from lora_spec.stress.simulator.luck import AcceptanceLuck
from lora_spec.stress.simulator.routers import make_router
from lora_spec.stress.simulator.settings import ServerSettings, SimulatedAdapter
from lora_spec.traffic.schedule import ScheduledRequest


@dataclass(frozen=True)
class Fleet:
    """Equal engines behind a router, and the adapters that each of them may be asked for."""

    server: ServerSettings
    cost: StepCost
    adapters: tuple[SimulatedAdapter, ...]
    num_engines: int = 1
    router: str = "round_robin"


@dataclass(frozen=True)
class SimulatedRun:
    """What came of a run; ``records`` are by index, counts are those of requests due after the warm-up.

    Parameters
    ----------
    busy_s
        Seconds that each engine spent in steps.
    num_steps
        Engine steps, all engines together.
    num_adapter_loads, num_cached_adapter_loads
        Loads from disk, and copies of what main memory held.
    """

    records: tuple[RequestRecord, ...]
    counts: dict[str | None, DraftCounts]
    busy_s: tuple[float, ...]
    num_steps: int
    num_adapter_loads: int
    num_cached_adapter_loads: int


def simulate(
    requests: Sequence[ScheduledRequest],
    fleet: Fleet,
    make_chooser: Callable[[], Chooser],
    *,
    seed: int,
    warmup_s: float = 0.0,
    drain_s: float = 120.0,
) -> SimulatedRun:
    """Return what comes of a schedule, deterministic in everything given.

    Parameters
    ----------
    requests
        By arrival; ``index`` is their place, as a schedule gives them.
    make_chooser
        Makes what chooses depths, once per engine: what one learns, the others do not know.
    seed
        Of the accepted drafts, the same whatever the policy, the router and the number of engines.
    drain_s
        As the live client's: seconds after the last arrival in which open requests may still end.
    """
    adapters = {adapter.name: adapter for adapter in fleet.adapters}
    engines = [
        Engine(fleet.server, fleet.cost, adapters, make_chooser(), count_from_s=warmup_s)
        for _ in range(fleet.num_engines)
    ]
    router, luck = make_router(fleet.router, engines), AcceptanceLuck(adapters, requests, seed=seed)
    for request in requests:
        engines[router.choose(request)].offer(request, luck.path(request))
    last_s = requests[-1].arrival_s if requests else 0.0
    for engine in engines:
        engine.give_up(last_s + drain_s)
    return _run_of(engines)


def _run_of(engines: Sequence[Engine]) -> SimulatedRun:
    counts: dict[str | None, DraftCounts] = {}
    for engine in engines:
        for adapter, found in engine.counts.items():
            counts.setdefault(adapter, DraftCounts()).merge(found)
    return SimulatedRun(
        records=tuple(
            sorted((record for engine in engines for record in engine.records), key=lambda record: record.index)
        ),
        counts=counts,
        busy_s=tuple(engine.busy_s for engine in engines),
        num_steps=sum(engine.num_steps for engine in engines),
        num_adapter_loads=sum(engine.slots.num_loads for engine in engines),
        num_cached_adapter_loads=sum(engine.slots.num_cached_loads for engine in engines),
    )
