"""What every runtime rule answers, and how it is compared with the intended update."""

import math
from dataclasses import dataclass, field
from typing import Any

from lora_spec.adapter.inspected import InspectedModule, Inspection


@dataclass
class Serving:
    """A runtime's treatment of an adapter.

    Parameters
    ----------
    basis
        Which version or source the rules were read from.
    scales
        The scale that is applied, by module name; a module that is absent is not applied.
    refusals
        Why the runtime does not load the adapter at all; empty if it does.
    warnings
        What else differs from the intended update.
    """

    basis: str
    scales: dict[str, float]
    refusals: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class ServedUpdate:
    """The update a runtime applies, beside the intended one; norms are None after a header-only inspection."""

    runtime: str
    basis: str
    is_loaded: bool
    refusals: tuple[str, ...]
    warnings: tuple[str, ...]
    num_modules_applied: int
    differing: tuple[tuple[str, float, float], ...]
    total_fro_norm: float | None
    intended_fro_norm: float | None

    @property
    def is_as_intended(self) -> bool:
        """Tell whether the runtime applies exactly the intended update."""
        return self.is_loaded and not self.differing

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data; ``modules`` lists only those whose scale differs (0 where not applied)."""
        return {
            "runtime": self.runtime,
            "basis": self.basis,
            "is_loaded": self.is_loaded,
            "is_as_intended": self.is_as_intended,
            "refusals": list(self.refusals),
            "warnings": list(self.warnings),
            "num_modules_applied": self.num_modules_applied,
            "total_fro_norm": self.total_fro_norm,
            "intended_fro_norm": self.intended_fro_norm,
            "modules": [
                {"name": name, "intended_scale": intended, "served_scale": served}
                for name, intended, served in self.differing
            ],
        }


def alpha_of(module: InspectedModule, inspection: Inspection) -> float:
    """Return the alpha of a module after ``alpha_pattern``, from its scale and rank."""
    return module.scale * (math.sqrt(module.rank) if inspection.config.get("use_rslora") else module.rank)


def canonical_key(module: InspectedModule) -> str:
    """Return the name that PEFT gives to the A of a module."""
    name = module.name.rpartition("[")[0] if module.name.endswith("]") else module.name
    return f"base_model.model.{name}." + ("lora_embedding_A" if module.is_embedding else "lora_A.weight")


def compare(inspection: Inspection, runtime: str, serving: Serving) -> ServedUpdate:
    """Return the served update of a runtime's treatment."""
    scales = {} if serving.refusals else serving.scales
    differing = tuple(
        (module.name, module.scale, scales.get(module.name, 0.0))
        for module in inspection.modules
        if not math.isclose(module.scale, scales.get(module.name, 0.0), rel_tol=1e-9)
    )
    return ServedUpdate(
        runtime=runtime,
        basis=serving.basis,
        is_loaded=not serving.refusals,
        refusals=tuple(serving.refusals),
        warnings=tuple(serving.warnings),
        num_modules_applied=len(scales),
        differing=differing,
        total_fro_norm=_total(inspection, scales),
        intended_fro_norm=inspection.total_fro_norm,
    )


def _total(inspection: Inspection, scales: dict[str, float]) -> float | None:
    if inspection.is_header_only:
        return None
    norms = []
    for module in inspection.modules:
        scale = scales.get(module.name, 0.0)
        if module.scale:
            norms.append(module.fro_norm * abs(scale / module.scale))
        elif scale:
            return None  # alpha 0: the factors were measured times zero, so their norm at another scale is unknown
    return math.hypot(*norms)
