"""The calibration probe of a tier's adapters: what it will run on (a plan), and the running, adapter by adapter.

Only prompts of role ``calibration`` are used, of the adapter's own domain; none of them is an evaluation prompt.
"""

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from lora_spec.calibration_record import CalibrationRecord
from lora_spec.engines import AdapterRef, Engine, open_engine
from lora_spec.engines.options import offline_options
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.calibration_probe import CalibrationProbe, Reader
from lora_spec.measurement.campaign import Campaign, Folders, adapter_ref, unpinned_inputs
from lora_spec.measurement.machine_load import OtherCpuMeter
from lora_spec.measurement.served_files import ADAPTER_WEIGHTS, adapter_files_sha256, model_files_sha256
from lora_spec.provenance import code_digest, sha256_of_json
from lora_spec.training.frozen_prompts import FrozenPrompts


def prompts_of(campaign: Campaign, row: Mapping[str, Any], *, num_prompts: int | None = None) -> FrozenPrompts:
    """Return the calibration prompts of an adapter, all of them or the first N.

    Raises
    ------
    MeasurementError
        Its domain has none, or too few, or one of them is an evaluation prompt of whatever domain.
    """
    found = [p for p in campaign.prompts if (p.prompt_set, p.role, p.domain) == ("own", "calibration", row["domain"])]
    if len(found) != 1 or not found[0].prompts:
        raise MeasurementError(
            f"adapter {row['name']!r}: no own prompts of role 'calibration' for domain {row['domain']!r}; add them to "
            "prompts.yaml"
        )
    (frozen,) = found
    evaluated = {prompt for p in campaign.prompts if p.role == "evaluation" for prompt in p.prompts}
    if shared := sorted(evaluated.intersection(frozen.prompts)):
        raise MeasurementError(
            f"domain {row['domain']!r}: {shared[0]!r} is a calibration prompt and an evaluation prompt; a probe on it "
            "would have seen what it is judged by: change first_prompt in prompts.yaml"
        )
    if num_prompts is not None and not 1 <= num_prompts <= len(frozen.prompts):
        raise MeasurementError(
            f"{num_prompts} calibration prompts asked for, domain {row['domain']!r} has {len(frozen.prompts)}"
        )
    return replace(frozen, prompts=frozen.prompts[:num_prompts])


def plan_calibration(campaign: Campaign, *, num_prompts: int | None = None) -> dict[str, Any]:
    """Return what would be probed, with every frozen hash, without an engine and without downloading."""
    return {
        "pair": dict(campaign.pair),
        "engine": dict(campaign.engine),
        "max_depth": campaign.phase1["max_depth"],
        "unpinned": unpinned_inputs(campaign),
        "adapters": [
            {"adapter": dict(row), **_told(prompts_of(campaign, row, num_prompts=num_prompts))} for row in campaign.rows
        ],
    }


def _told(prompts: FrozenPrompts) -> dict[str, Any]:
    kept = ("prompt_set", "role", "domain", "max_tokens", "sha256", "license")
    return {**{key: getattr(prompts, key) for key in kept}, "num_prompts": len(prompts.prompts)}


def execute_calibration(
    campaign: Campaign,
    folders: Folders,
    *,
    num_prompts: int | None = None,
    is_done: Callable[[str, str], bool] = lambda name, inputs_sha256: False,
) -> Iterator[tuple[CalibrationRecord, dict[str, Any]]]:
    """Probe every adapter on one engine and yield its record, with circumstances, as each is done.

    Parameters
    ----------
    num_prompts
        Only the first N prompts, to see what a smaller probe costs; None is all of them.
    is_done
        Asked with an adapter's name and the digest of everything that its record depends on; True skips it.

    Raises
    ------
    MeasurementError
        An input is unpinned, an adapter's folder is not given or unusable, or a check of the probe failed.
    """
    if unpinned := unpinned_inputs(campaign):
        raise MeasurementError(
            f"{', '.join(unpinned)}: no immutable revision (revision: null); give 40 hex digits in the config"
        )
    prompts = {row["name"]: prompts_of(campaign, row, num_prompts=num_prompts) for row in campaign.rows}
    served = {
        row["name"]: adapter_ref(row["name"], folders.adapters, sha256=row.get("sha256")) for row in campaign.rows
    }
    shared = _shared_inputs(campaign, folders)
    inputs = {name: shared | _own_inputs(served[name], prompts[name]) for name in served}
    waiting = [name for name in served if not is_done(name, sha256_of_json(inputs[name]))]
    if not waiting:
        return
    names = {role: campaign.pair[role]["name"] for role in ("target", "drafter")}
    with _open_probe(campaign, folders) as (engine, probe):
        for name in waiting:
            record = _probe_one(engine, probe, served[name], inputs[name]["adapter_sha256"], prompts[name])
            yield record, {"engine": engine.describe() | names, "inputs_sha256": sha256_of_json(inputs[name])}


def _probe_one(
    engine: Engine, probe: CalibrationProbe, adapter: AdapterRef, adapter_sha256: str, frozen: FrozenPrompts
) -> CalibrationRecord:
    tokens = engine.encode_chat(frozen.prompts)
    prompts = [Prompt(frozen.prompt_id(index), ids) for index, ids in enumerate(tokens)]
    with OtherCpuMeter() as others:
        seen, cost_by_part = probe.run(adapter, prompts, max_tokens=frozen.max_tokens)
    return CalibrationRecord(
        adapter=adapter.name,
        adapter_sha256=adapter_sha256,
        domain=frozen.domain,
        role=frozen.role,
        prompts=seen,
        cost_by_part=cost_by_part,
        other_cores=others.other_cores,
    )


def _shared_inputs(campaign: Campaign, folders: Folders) -> dict[str, Any]:
    """Return what all records depend on: the models, the settings, and the code that probes."""
    return {
        "models": [model_files_sha256(folder) for folder in (folders.target, folders.drafter)],
        "max_depth": campaign.phase1["max_depth"],
        "engine": dict(campaign.engine),
        # Records outlive a run: without this, changed code would be said to have probed what it did not.
        "code": code_digest(Path(__file__)),
    }


def _own_inputs(adapter: AdapterRef, prompts: FrozenPrompts) -> dict[str, Any]:
    """Return what one adapter's record depends on beside them: its weights, its config and its prompts."""
    files = adapter_files_sha256(Path(adapter.path))
    return {"adapter_sha256": files[ADAPTER_WEIGHTS], "adapter": files, **_told(prompts)}


@contextmanager
def _open_probe(campaign: Campaign, folders: Folders) -> Iterator[tuple[Engine, CalibrationProbe]]:
    # Nothing is drafted while texts are written, so the batch may be as large as the cache allows.
    options = offline_options(campaign.engine) | {"max_num_seqs": campaign.phase1["counting"]["max_num_seqs"]}
    with open_engine("vllm_offline", target=str(folders.target), **options) as engine:
        yield (
            engine,
            CalibrationProbe(
                engine,
                _open_reader(campaign, folders),
                weights_of=lambda adapter: _merged(folders.target, adapter),
                max_depth=campaign.phase1["max_depth"],
            ),
        )


def _open_reader(campaign: Campaign, folders: Folders) -> Reader:
    # Imported here: planning a campaign must not load torch.
    from lora_spec.engines.text_reader import ComparingReader

    return ComparingReader(
        str(folders.target),
        str(folders.drafter),
        dtype=campaign.engine["dtype"],
        num_threads=campaign.engine["num_threads"],
    )


def _merged(target: Path, adapter: AdapterRef) -> Iterator[tuple[str, Any]]:
    from lora_spec.training.merged import merged_weights

    return merged_weights(target, Path(adapter.path))
