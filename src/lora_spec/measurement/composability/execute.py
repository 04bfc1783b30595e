"""Run what a plan selected, write after every cell, and go on where an earlier run stopped."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from lora_spec.errors import ConfigError, EngineError, MeasurementError
from lora_spec.measurement.campaign import adapter_ref
from lora_spec.measurement.composability.cache_semantics import make_cache_tests
from lora_spec.measurement.composability.cells import Cell, find_cells
from lora_spec.measurement.composability.plan import Phase0Plan
from lora_spec.measurement.composability.references import make_references
from lora_spec.measurement.composability.runner import CellRunner, RunInputs, installed_vllm
from lora_spec.measurement.composability.store import ObservationStore
from lora_spec.measurement.served_files import ADAPTER_WEIGHTS, adapter_files_sha256, model_files_sha256

_MAX_LINE = 200


def gather_inputs(
    plan: Phase0Plan, *, target: Path | None, drafter: Path | None, adapters: Mapping[str, Path]
) -> RunInputs:
    """Return the inputs of a run, inspected and hashed.

    Raises
    ------
    ConfigError
        No model folders were given.
    MeasurementError
        Something is unpinned, or an adapter is not given or not the one that the plan says.
    EngineError
        The installed vLLM is not the one that the config is for.
    """
    if plan.unpinned:
        raise MeasurementError(
            f"{', '.join(plan.unpinned)}: no immutable revision (revision: null); give 40 hex digits in the config"
        )
    if target is None or drafter is None:
        raise ConfigError("--execute needs the model folders: pass --target and --drafter")
    if installed_vllm() != plan.config.vllm_version:
        raise EngineError(
            f"vLLM {installed_vllm() or 'none'} is installed, the config is for {plan.config.vllm_version}; "
            "run in the serving environment"
        )
    refs = tuple(adapter_ref(row["name"], adapters) for row in plan.adapters)
    files = {ref.name: adapter_files_sha256(Path(ref.path)) for ref in refs}
    _check_pinned(plan, {name: sha256[ADAPTER_WEIGHTS] for name, sha256 in files.items()})
    files |= {"model:target": model_files_sha256(target), "model:drafter": model_files_sha256(drafter)}
    return RunInputs(str(target), str(drafter), refs, files)


def _check_pinned(plan: Phase0Plan, sha256: Mapping[str, str]) -> None:
    for row in plan.adapters:
        found = sha256.get(row["name"])
        if row.get("sha256") not in (None, found):
            raise MeasurementError(
                f"adapter {row['name']}: the folder given hashes to {found}, pinned is {row['sha256']}; pass the "
                "folder that adapter_pool.yaml names"
            )


def execute_phase0(
    runner: CellRunner,
    store: ObservationStore,
    *,
    names: tuple[str, ...] = (),
    is_again: bool = False,
    report: Callable[[str], None],
) -> None:
    """Run the named cells, or those of the plan and then the cache tests; each observation is written at once.

    What was measured with the same code and settings is skipped, unless ``is_again``. ``report`` is called with one
    line per observation.
    """
    chosen = find_cells(runner.plan.cells, names) if names else tuple(entry.cell for entry in runner.plan.selected)
    due = [cell for cell in chosen if is_again or not store.is_measured(cell.cell_id, runner.digest(cell.axes))]
    report(f"{len(chosen)} cells chosen, {len(chosen) - len(due)} of them measured before")
    if due:
        _run_cells(runner, store, due, report)
    if not names:
        _run_cache_tests(runner, store, is_again=is_again, report=report)
    store.write()


def _run_cells(runner: CellRunner, store: ObservationStore, cells: list[Cell], report: Callable[[str], None]) -> None:
    # Sampled texts are judged without references.
    greedy = [cell.axes for cell in cells if cell.axes["sampler"] == "greedy"]
    references = make_references(runner, {bool(axes["structured_output"]) for axes in greedy})
    for cell in cells:
        entry = runner.observe(cell, references)
        store.put_cell(entry)
        report(_line(entry, cell.cell_id))


def _run_cache_tests(
    runner: CellRunner, store: ObservationStore, *, is_again: bool, report: Callable[[str], None]
) -> None:
    if not runner.plan.config.cache_tests:
        return
    references = make_references(runner, {False})
    scratch, names = runner.folder / "cache", runner.plan.config.cache_tests
    for test in make_cache_tests(runner.load, references, scratch, names):
        digest = runner.digest(runner.cache_task(test))
        if is_again or not all(store.is_measured(claim, digest) for claim in test.claims):
            for entry in runner.observe_cache(test, references):
                store.put_cache(entry)
                report(_line(entry, entry["test"]))


def _line(entry: Mapping[str, Any], name: str) -> str:
    return f"{entry['status']:8}{entry['wall_s']:7.1f} s  {name}: {entry['reason']}"[:_MAX_LINE]
