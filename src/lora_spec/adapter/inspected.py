"""What an inspection found: one adapter, its modules, and the JSON object of the contract."""

import math
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from lora_spec.adapter.findings import Findings
from lora_spec.errors import AdapterError
from lora_spec.printing import printable

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

SCHEMA_VERSION = "1"
_WORDS_SHOWN = 8


class InspectedModule(NamedTuple):
    """One update scale * B @ A as inspected.

    Parameters
    ----------
    key, key_b
        The names that the file gives to A and B.
    is_stacked
        Whether the tensors hold a stack of experts.
    singular_values
        Of scale * B @ A, descending, shape ``(min(rank, in_features, out_features),)``; None after a header-only
        inspection.
    """

    name: str
    type: str
    layer: int | None
    stack: str | None
    rank: int
    scale: float
    in_features: int
    out_features: int
    dtype: str
    key: str = ""
    key_b: str = ""
    is_embedding: bool = False
    is_stacked: bool = False
    singular_values: "NDArray[np.float64] | None" = None

    @property
    def fro_norm(self) -> float | None:
        """Return the Frobenius norm of the update."""
        return None if self.singular_values is None else math.hypot(*self.singular_values.tolist())

    @property
    def spectral_norm(self) -> float | None:
        """Return the largest singular value of the update."""
        return None if self.singular_values is None else float(self.singular_values[0])

    @property
    def stable_rank(self) -> float | None:
        """Return (fro_norm / spectral_norm)^2, 0 for a zero update."""
        if self.singular_values is None:
            return None
        return (self.fro_norm / self.spectral_norm) ** 2 if self.spectral_norm else 0.0

    def to_dict(self) -> dict[str, Any]:
        """Return plain JSON data in the words of the inspection contract."""
        data: dict[str, Any] = {"name": self.name, "rank": self.rank, "scale": self.scale}
        if self.singular_values is not None:
            data |= {name: getattr(self, name) for name in ("fro_norm", "spectral_norm", "stable_rank")}
        return data | {
            "type": self.type,
            "layer": self.layer,
            "in_features": self.in_features,
            "out_features": self.out_features,
        }


class Inspection(NamedTuple):
    """What an inspection found: status, codes, one message, and the modules where they could be read.

    ``other_names`` are those of the tensors that are no factors.
    """

    path: Path
    status: str
    codes: tuple[str, ...]
    message: str
    modules: tuple[InspectedModule, ...]
    is_header_only: bool
    num_bytes: int
    file_names: tuple[str, ...]
    config: dict[str, Any]
    findings: Findings
    other_names: tuple[str, ...] = ()

    @property
    def total_fro_norm(self) -> float | None:
        """Return the root of the sum of squared Frobenius norms, None after a header-only inspection."""
        return None if self.is_header_only else math.hypot(*(module.fro_norm for module in self.modules))

    def raise_if_unusable(self) -> None:
        """Raise AdapterError, with the codes, unless the status is ``ok`` or ``abstain`` with modules measured."""
        if self.status == "error" or not self.modules:
            raise AdapterError(self.message, codes=self.codes)

    def tell(self) -> str:
        """Return one line for people: status, codes, what is in the adapter, and what is wrong with it."""
        codes = f" [{', '.join(self.codes)}]" if self.codes else ""
        parts = [self._tell_modules()] if self.modules and self.status != "error" else []
        parts += [self.message] if self.codes else []
        return f"{self.status}{codes}: {'; '.join(parts) or self.message}"

    def _tell_modules(self) -> str:
        """Return counts, types, ranks, scales, size and norm, such as ``60 modules (q_proj, v_proj), rank 8, ...``."""
        count = len(self.modules)
        types = _tell_few(sorted({printable(module.type, 40) for module in self.modules}))
        ranks = _tell_range("rank", {module.rank for module in self.modules})
        scales = _tell_range("scale", {module.scale for module in self.modules})
        dtypes = _tell_few(sorted({module.dtype.lower() for module in self.modules}))
        told = f"{count} module{'s' * (count > 1)} ({types}), {ranks}, {scales}, {self.num_bytes / 1e6:.3g} MB {dtypes}"
        return told if self.total_fro_norm is None else f"{told}, total norm {self.total_fro_norm:.3g}"

    def to_dict(self) -> dict[str, Any]:
        """Return the JSON object of the inspection contract."""
        return {
            "schema_version": SCHEMA_VERSION,
            "status": self.status,
            "codes": list(self.codes),
            "message": self.message,
            "header_only": self.is_header_only,
            "adapter": self._adapter() if self.modules and self.status != "error" else None,
            "findings": self.findings.to_list(),
        }

    def _adapter(self) -> dict[str, Any]:
        return {
            "num_modules": len(self.modules),
            "ranks": sorted({module.rank for module in self.modules}),
            "module_types": sorted({module.type for module in self.modules}),
            "total_fro_norm": self.total_fro_norm,
            "num_bytes": self.num_bytes,
            "dtypes": sorted({module.dtype for module in self.modules}),
            "modules": [module.to_dict() for module in self.modules],
        }


def _tell_few(words: list[str]) -> str:
    more = f" and {len(words) - _WORDS_SHOWN} more" if len(words) > _WORDS_SHOWN else ""
    return ", ".join(words[:_WORDS_SHOWN]) + more


def _tell_range(what: str, numbers: set[float]) -> str:
    low, high = min(numbers), max(numbers)
    return f"{what} {low:.4g}" if low == high else f"{what}s {low:.4g} to {high:.4g}"
