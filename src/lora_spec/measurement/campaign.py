"""The acceptance campaign of a tier: what it will measure (a plan), and the measuring, adapter by adapter."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.adapter import inspect_adapter
from lora_spec.adapter.digest import check_row_weights
from lora_spec.engines import AdapterRef, Engine
from lora_spec.errors import MeasurementError
from lora_spec.joins import by_adapter
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.collect import COUNTED_KEYS, PromptSet
from lora_spec.measurement.collectors import open_collector
from lora_spec.measurement.served_files import ADAPTER_WEIGHTS, adapter_files_sha256, model_files_sha256
from lora_spec.provenance import code_digest, sha256_of_json
from lora_spec.records import AcceptanceRecord
from lora_spec.training.frozen_prompts import FrozenPrompts


@dataclass(frozen=True)
class Campaign:
    """All that the campaign is told: rows of the pool, the phase-1 settings, prompts by role, engine, pair names."""

    rows: tuple[Mapping[str, Any], ...]
    phase1: Mapping[str, Any]
    prompts: tuple[FrozenPrompts, ...]
    engine: Mapping[str, Any]
    pair: Mapping[str, Any]
    is_own_only: bool = False

    def prompts_for(self, row: Mapping[str, Any]) -> list[FrozenPrompts]:
        """Return the evaluation prompts of an adapter: its own traffic, then the common ones, domain by domain."""
        evaluation = [prompts for prompts in self.prompts if prompts.role == "evaluation"]
        own = [p for p in evaluation if p.prompt_set == "own" and p.domain == row["domain"]]
        common = [p for p in evaluation if p.prompt_set == "common"]
        for prompt_set, found in (("own", own), ("common", common)):
            if not found and not (self.is_own_only and prompt_set == "common"):
                raise MeasurementError(
                    f"adapter {row['name']!r}: no evaluation prompts in set {prompt_set!r} for domain "
                    f"{row['domain']!r}; add them to prompts.yaml"
                )
        return own if self.is_own_only else own + common


def unpinned_inputs(campaign: Campaign) -> list[str]:
    """Return the models and adapters that stand at no immutable revision: they can be planned and not run."""
    models = {name: part for name, part in campaign.pair.items() if isinstance(part, Mapping) and "source" in part}
    parts = {name: model["source"] for name, model in models.items()}
    rows = {row["name"]: row for row in campaign.rows if row["source"] == "hub"}
    return [name for name, source in {**parts, **rows}.items() if "revision" in source and source["revision"] is None]


def plan_campaign(campaign: Campaign) -> dict[str, Any]:
    """Return what would be measured, with every frozen hash, without an engine and without downloading."""
    return {
        "pair": dict(campaign.pair),
        "engine": dict(campaign.engine),
        "settings": {key: campaign.phase1[key] for key in (*COUNTED_KEYS, "counting")},
        "unpinned": unpinned_inputs(campaign),
        "adapters": [
            {
                "adapter": dict(row),
                "prompt_sets": [
                    {
                        "prompt_set": prompts.prompt_set,
                        "domain": prompts.domain,
                        "num_prompts": len(prompts.prompts),
                        "max_tokens": prompts.max_tokens,
                        "sha256": prompts.sha256,
                        "license": prompts.license,
                    }
                    for prompts in campaign.prompts_for(row)
                ],
                "arms": list(campaign.phase1["arms"]),
            }
            for row in campaign.rows
        ],
    }


@dataclass(frozen=True)
class Folders:
    """Where the models and adapters of a campaign lie; the early drafter only where it replays."""

    target: Path
    drafter: Path
    adapters: Mapping[str, Path]
    early_drafter: Path | None = None


def named_folders(pairs: Iterable[tuple[str, Path]]) -> dict[str, Path]:
    """Return folders by adapter name; ResultError where a name is given twice."""
    return dict(by_adapter(pairs, lambda pair: pair[0], what="folders given").values())


def execute_campaign(
    campaign: Campaign, folders: Folders, *, is_done: Callable[[str, str], bool] = lambda name, inputs_sha256: False
) -> Iterator[tuple[AcceptanceRecord, dict[str, Any]]]:
    """Measure every adapter on one engine and yield its record, with circumstances, as each is done.

    Parameters
    ----------
    is_done
        Asked with an adapter's name and the digest of everything that its record depends on; True skips it.

    Raises
    ------
    MeasurementError
        An input is unpinned, an adapter's folder is not given or unusable, or a check of the measurement failed.
    """
    if unpinned := unpinned_inputs(campaign):
        raise MeasurementError(
            f"{', '.join(unpinned)}: no immutable revision (revision: null); give 40 hex digits in the config"
        )
    served = {
        row["name"]: adapter_ref(row["name"], folders.adapters, sha256=row.get("sha256")) for row in campaign.rows
    }
    shared = _shared_inputs(campaign, folders)
    inputs = {row["name"]: shared | _own_inputs(campaign, row, served[row["name"]]) for row in campaign.rows}
    waiting = [row for row in campaign.rows if not is_done(row["name"], sha256_of_json(inputs[row["name"]]))]
    if not waiting:
        return
    names = {role: campaign.pair[role]["name"] for role in ("target", "drafter")}
    with open_collector(campaign, folders) as (engine, collector):
        for row in waiting:
            name = row["name"]
            records = collector.collect(served[name], _encode(engine, campaign.prompts_for(row)))
            record = AcceptanceRecord(name, inputs[name]["adapter_sha256"], records)
            yield record, {"engine": engine.describe() | names, "inputs_sha256": sha256_of_json(inputs[name])}


def _shared_inputs(campaign: Campaign, folders: Folders) -> dict[str, Any]:
    """Return what all records depend on: the models, the settings, and the code that measures."""
    models = [folders.target, folders.drafter, *filter(None, [folders.early_drafter])]
    return {
        "models": [model_files_sha256(folder) for folder in models],
        "settings": {key: campaign.phase1[key] for key in (*COUNTED_KEYS, "counting")},
        "engine": dict(campaign.engine),
        # Records outlive a run: without this, changed code would be said to have measured what it did not.
        "code": code_digest(Path(__file__)),
    }


def _own_inputs(campaign: Campaign, row: Mapping[str, Any], adapter: AdapterRef) -> dict[str, Any]:
    """Return what one adapter's record depends on beside them: its weights, its config and its prompts."""
    files = adapter_files_sha256(Path(adapter.path))
    return {
        "adapter_sha256": files[ADAPTER_WEIGHTS],
        "adapter": files,
        "prompts": [[p.prompt_set, p.role, p.sha256, p.max_tokens] for p in campaign.prompts_for(row)],
    }


def adapter_ref(name: str, adapters: Mapping[str, Path], *, sha256: str | None = None) -> AdapterRef:
    """Return an adapter as an engine needs it, after inspecting its folder.

    Parameters
    ----------
    sha256
        SHA-256 of the weights by the adapter's row of the pool; None where the row has none.

    Raises
    ------
    ConfigError
        The weights are not those of the row.
    MeasurementError
        No folder was given, or it does not hold an adapter whose update is scale * B @ A.
    """
    if name not in adapters:
        raise MeasurementError(f"adapter {name!r}: no folder given; pass --adapters {name}=FOLDER")
    inspection = inspect_adapter(adapters[name])
    if inspection.status != "ok":
        raise MeasurementError(f"adapter {name!r}: {inspection.message}; a measurement of it would mean nothing")
    check_row_weights(adapters[name], sha256, row=name)
    is_zero = "N_ZERO_UPDATE" in inspection.codes
    return AdapterRef(
        name, str(adapters[name]), max(module.rank for module in inspection.modules), has_update=not is_zero
    )


def _encode(engine: Engine, frozen: Sequence[FrozenPrompts]) -> list[PromptSet]:
    sets = []
    for prompts in frozen:
        tokens = engine.encode_chat(prompts.prompts)
        named = tuple(Prompt(prompts.prompt_id(index), ids) for index, ids in enumerate(tokens))
        sets.append(
            PromptSet(prompts.prompt_set, prompts.sha256, named, prompts.max_tokens, prompts.domain, prompts.role)
        )
    return sets
