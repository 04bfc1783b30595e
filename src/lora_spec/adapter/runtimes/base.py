"""What every runtime rule answers, and how it is compared with the intended update."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from lora_spec.adapter.inspected import InspectedModule, Inspection
from lora_spec.printing import printable

PREFIX = "base_model.model."


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
    num_modules: int
    num_modules_applied: int
    differing: tuple[tuple[str, float, float], ...]
    total_fro_norm: float | None
    intended_fro_norm: float | None

    @property
    def is_as_intended(self) -> bool:
        """Tell whether the runtime applies exactly the intended update."""
        return self.is_loaded and not self.differing

    def tell(self) -> str:
        """Return in one line how much of the update is applied."""
        if not self.is_loaded:
            return "does not load it"
        if self.is_as_intended:
            return f"applies all {self.num_modules} modules as intended"
        others = len(self.differing) - (self.num_modules - self.num_modules_applied)
        at_another = f", {others} of them at another scale" if others else ""
        return f"applies {self.num_modules_applied} of {self.num_modules} modules{at_another}"

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


def bare_name(module: InspectedModule) -> str:
    """Return the name of a module without the number of an expert."""
    return module.name.rpartition("[")[0] if module.name.endswith("]") else module.name


def is_canonical(module: InspectedModule) -> bool:
    """Tell whether both factors bear exactly the names that PEFT gives them."""
    kind, end = ("embedding_", "") if module.is_embedding else ("", ".weight")
    names = (f"{PREFIX}{bare_name(module)}.lora_{kind}{factor}{end}" for factor in "AB")
    return (module.key, module.key_b) == tuple(names)


def suspect_keys(inspection: Inspection) -> frozenset[str]:
    """Return the tensor names that do not fit the released base model."""
    return frozenset(inspection.findings.places("A_PREFIX_SUSPECT"))


def tell_names(names: Sequence[str]) -> str:
    """Return the first of some names of a file, safe to print, and how many more there are."""
    more = f" and {len(names) - 1} more" if len(names) > 1 else ""
    return f"{printable(names[0])}{more}"


def compare(inspection: Inspection, runtime: str, serving: Serving) -> ServedUpdate:
    """Return the served update of a runtime's treatment."""
    scales = {} if serving.refusals else serving.scales
    differing = tuple(
        (module.name, module.scale, scales.get(module.name, 0.0))
        for module in inspection.modules
        if not math.isclose(module.scale, scales.get(module.name, 0.0), rel_tol=1e-9)
    )
    total, warnings = _total(inspection, scales), list(serving.warnings)
    if total == math.inf:
        total = None
        warnings.append("the norm of what it would apply is beyond float64")
    return ServedUpdate(
        runtime=runtime,
        basis=serving.basis,
        is_loaded=not serving.refusals,
        refusals=tuple(serving.refusals),
        warnings=tuple(warnings),
        num_modules=len(inspection.modules),
        num_modules_applied=len(scales),
        differing=differing,
        total_fro_norm=total,
        intended_fro_norm=inspection.total_fro_norm,
    )


def _total(inspection: Inspection, scales: dict[str, float]) -> float | None:
    if inspection.is_header_only:
        return None
    norms = []
    for module in inspection.modules:
        scale = scales.get(module.name, 0.0)
        if module.scale:
            norms.append(_rescaled(module.fro_norm, module.scale, scale))
        elif scale:
            return None  # alpha 0: the factors were measured times zero, so their norm at another scale is unknown
    return math.hypot(*norms)


def _rescaled(norm: float, old: float, new: float) -> float:
    """Return norm * |new / old|, infinity beyond float64, whatever the sizes on the way there."""
    parts = [math.frexp(value) for value in (norm, abs(new), abs(old))]
    mantissa, exponent = parts[0][0] * parts[1][0] / parts[2][0], parts[0][1] + parts[1][1] - parts[2][1]
    try:
        return math.ldexp(mantissa, exponent)
    except OverflowError:
        return math.inf
