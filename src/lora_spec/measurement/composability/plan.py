"""What will be run, with every frozen input checked, before any engine is imported or anything downloaded."""

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lora_spec.config import Tier
from lora_spec.config.adapter_pool import HubAdapter, ShippedAdapter
from lora_spec.config.phase0_runtime import Phase0RuntimeConfig
from lora_spec.errors import ConfigError
from lora_spec.measurement.campaign import unpinned_inputs
from lora_spec.measurement.composability.cells import Cell, enumerate_cells
from lora_spec.measurement.composability.covering import SelectedCell, covered_by, select_cells
from lora_spec.measurement.tier_campaign import campaign_of
from lora_spec.provenance import sha256_of_file, sha256_of_json


@dataclass(frozen=True)
class Phase0Plan:
    """The matrix of a tier, the cells to run and what they run on."""

    tier: str
    config: Phase0RuntimeConfig
    engine: dict[str, Any]
    pair: dict[str, Any]
    adapters: tuple[dict[str, Any], ...]
    cells: tuple[Cell, ...]
    selected: tuple[SelectedCell, ...]
    messages: tuple[str, ...]
    prompts: dict[str, Any]
    unpinned: tuple[str, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as plain data."""
        rules = Counter(cell.rule.status if cell.rule else "runnable" for cell in self.cells)
        strength = self.config.selection.coverage_strength
        runnable = [cell for cell in self.cells if cell.is_runnable]
        covered = covered_by((s.cell for s in self.selected if s.cell.is_runnable), strength)
        return {
            "vllm_version": self.config.vllm_version,
            "matrix": {"num_cells": len(self.cells), **rules},
            "coverage": {
                "strength": strength,
                "num_combinations": len(covered_by(runnable, strength)),
                "num_covered": len(covered),
            },
            "cells": [{"cell_id": s.cell.cell_id, "axes": s.cell.axes, "why": s.why} for s in self.selected],
            "adapters": list(self.adapters),
            "prompts": self.prompts,
            "pair": self.pair,
            "engine": self.engine,
            "unpinned": list(self.unpinned),
        }


def plan_phase0(tier: Tier) -> Phase0Plan:
    """Return the plan of a tier.

    Raises
    ------
    ConfigError
        A served adapter is not in the pool, a shipped file is missing or differs from its hash, or so do prompts.
    """
    config = tier.phase0_runtime
    campaign = campaign_of(tier, names=config.adapters.names)
    rows = {row["name"]: row for row in campaign.rows}
    for name in config.adapters.names:
        _check_shipped(tier, name)
    common = next(p for p in campaign.prompts if (p.role, p.prompt_set) == ("evaluation", "common"))
    if config.num_prompts > len(common.prompts):
        raise ConfigError(
            f"{tier.path_of('phase0_runtime')}: num_prompts {config.num_prompts} exceeds the {len(common.prompts)} "
            "common evaluation prompts of prompts.yaml; ask for fewer"
        )
    messages = tuple(f"{config.preamble}\n\n{prompt}" for prompt in common.prompts[: config.num_prompts])
    cells = enumerate_cells(config.axes, config.pruning)
    return Phase0Plan(
        tier=tier.name,
        config=config,
        engine=dict(campaign.engine),
        pair=dict(campaign.pair),
        adapters=tuple(dict(rows[name]) for name in config.adapters.names),
        cells=cells,
        selected=select_cells(cells, config.selection),
        messages=messages,
        prompts={
            "num_prompts": len(messages),
            "license": common.license,
            "frozen_sha256": common.sha256,
            "messages_sha256": sha256_of_json(messages),
        },
        unpinned=tuple(unpinned_inputs(campaign)),
    )


def _check_shipped(tier: Tier, name: str) -> None:
    """Hold a shipped adapter's file against its pinned hash; others are not there before the workflow makes them."""
    row = tier.adapter_pool.find(name)
    if isinstance(row, HubAdapter) or not isinstance(row, ShippedAdapter):
        return
    path = _root(tier.folder) / row.path / "adapter_model.safetensors"
    where = f"{tier.path_of('adapter_pool')}: adapter {name}"
    if not path.is_file():
        raise ConfigError(f"{where}: {row.path} holds no adapter_model.safetensors; restore it from the repository")
    found = sha256_of_file(path)
    if row.sha256 not in (None, found):
        raise ConfigError(f"{where}: {row.path} hashes to {found}, pinned is {row.sha256}; restore the file")


def _root(folder: Path) -> Path:
    """Return the repository of a tier's folder, which is ``configs`` or a folder below it."""
    return folder.parent if folder.name == "configs" else folder.parent.parent
