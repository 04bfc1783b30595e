"""The acceptance campaign of a tier: what it will measure (a plan), and the measuring, adapter by adapter."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.adapter import inspect_adapter
from lora_spec.engines import AdapterRef, Engine, open_engine, open_replayer
from lora_spec.engines.options import offline_options
from lora_spec.errors import MeasurementError
from lora_spec.measurement.acceptance import Prompt
from lora_spec.measurement.collect import AcceptanceCollector, CollectSettings, PromptSet
from lora_spec.provenance import sha256_of_file, sha256_of_json
from lora_spec.training.frozen_prompts import FrozenPrompts

_COUNTED_KEYS = ("num_speculative_tokens", "max_depth", "min_drafts", "num_warmup_prompts")


@dataclass(frozen=True)
class Campaign:
    """All that the campaign is told: rows of the pool, the phase-1 settings, prompts by role, engine, pair names."""

    rows: tuple[Mapping[str, Any], ...]
    phase1: Mapping[str, Any]
    prompts: tuple[FrozenPrompts, ...]
    engine: Mapping[str, Any]
    pair: Mapping[str, Any]

    def prompts_for(self, row: Mapping[str, Any]) -> list[FrozenPrompts]:
        """Return the evaluation prompts of an adapter: its own traffic, then the common ones, domain by domain."""
        evaluation = [prompts for prompts in self.prompts if prompts.role == "evaluation"]
        own = [p for p in evaluation if p.prompt_set == "own" and p.domain == row["domain"]]
        common = [p for p in evaluation if p.prompt_set == "common"]
        for prompt_set, found in (("own", own), ("common", common)):
            if not found:
                raise MeasurementError(
                    f"adapter {row['name']!r}: no evaluation prompts in set {prompt_set!r} for domain "
                    f"{row['domain']!r}; add them to prompts.yaml"
                )
        return own + common


def unpinned_inputs(campaign: Campaign) -> list[str]:
    """Return the models and adapters that stand at no immutable revision: they can be planned and not run."""
    parts = {name: model["source"] for name, model in campaign.pair.items() if isinstance(model, Mapping)}
    rows = {row["name"]: row for row in campaign.rows if row["source"] == "hub"}
    return [name for name, source in {**parts, **rows}.items() if "revision" in source and source["revision"] is None]


def plan_campaign(campaign: Campaign) -> dict[str, Any]:
    """Return what would be measured, with every frozen hash, without an engine and without downloading."""
    return {
        "pair": dict(campaign.pair),
        "engine": dict(campaign.engine),
        "settings": {key: campaign.phase1[key] for key in _COUNTED_KEYS},
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


def execute_campaign(
    campaign: Campaign, *, target: Path, drafter: Path, adapters: Mapping[str, Path]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Measure every adapter on one engine and yield (name, payload) as each is done.

    Raises
    ------
    MeasurementError
        An input is unpinned, an adapter's folder is not given or unusable, or a check of the measurement failed.
    """
    if unpinned := unpinned_inputs(campaign):
        raise MeasurementError(
            f"{', '.join(unpinned)}: no immutable revision (revision: null); give 40 hex digits in the config"
        )
    served = {row["name"]: adapter_ref(row["name"], adapters) for row in campaign.rows}
    engine = open_engine(
        "vllm_offline",
        target=str(target),
        drafter=str(drafter),
        num_speculative_tokens=campaign.phase1["max_depth"],
        max_loras=1,
        **offline_options(campaign.engine),
    )
    with engine:
        replayer = open_replayer(
            "transformers",
            drafter=str(drafter),
            dtype=campaign.engine["dtype"],
            num_threads=campaign.engine["num_threads"],
        )
        settings = CollectSettings(**{key: campaign.phase1[key] for key in _COUNTED_KEYS})
        collector = AcceptanceCollector(engine, replayer, settings)
        for row in campaign.rows:
            payload = collector.collect(served[row["name"]], _encode(engine, campaign.prompts_for(row)))
            digest = sha256_of_file(Path(served[row["name"]].path) / "adapter_model.safetensors")
            yield row["name"], {**payload, "adapter_sha256": digest, "engine": engine.describe()}


def adapter_ref(name: str, adapters: Mapping[str, Path]) -> AdapterRef:
    """Return an adapter as an engine needs it, after inspecting its folder.

    Raises
    ------
    MeasurementError
        No folder was given, or it does not hold an adapter whose update is scale * B @ A.
    """
    if name not in adapters:
        raise MeasurementError(f"adapter {name!r}: no folder given; pass --adapters {name}=FOLDER")
    inspection = inspect_adapter(adapters[name])
    if inspection.status != "ok":
        raise MeasurementError(f"adapter {name!r}: {inspection.message}; a measurement of it would mean nothing")
    is_zero = "N_ZERO_UPDATE" in inspection.codes
    return AdapterRef(
        name, str(adapters[name]), max(module.rank for module in inspection.modules), has_update=not is_zero
    )


def _encode(engine: Engine, frozen: Sequence[FrozenPrompts]) -> list[PromptSet]:
    """Return one set of prompts per name: lists of several domains are measured, and later pooled, as one."""
    by_set: dict[str, list[FrozenPrompts]] = {}
    for prompts in frozen:
        by_set.setdefault(prompts.prompt_set, []).append(prompts)
    return [_encode_set(engine, name, lists) for name, lists in by_set.items()]


def _encode_set(engine: Engine, name: str, lists: Sequence[FrozenPrompts]) -> PromptSet:
    named = [
        Prompt(prompts.prompt_id(index), ids)
        for prompts in lists
        for index, ids in enumerate(engine.encode_chat(prompts.prompts))
    ]
    hashes = [prompts.sha256 for prompts in lists]
    # One entry of prompts.yaml holds all lists of a set and role, so they share their cap.
    return PromptSet(name, hashes[0] if len(hashes) == 1 else sha256_of_json(hashes), tuple(named), lists[0].max_tokens)
