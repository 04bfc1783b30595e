"""The spectrum of each module of an opened adapter, and the search for values that are not finite."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.blocks import FactorBlocks, stored_blocks
from lora_spec.adapter.decode import count_nonfinite
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.modules import Module
from lora_spec.adapter.shards import WeightFiles
from lora_spec.adapter.spectrum import NonFiniteFactorError, singular_values

Array = NDArray[np.float64]
MAX_MEASURED_RANK = 8192


def measure_modules(modules: Iterable[Module], weights: WeightFiles, findings: Findings) -> dict[str, Array]:
    """Return the singular values of scale * B @ A by module name; record values that are not finite.

    A module whose rank is beyond what can be measured in bounded memory is recorded and left out.
    """
    blocks = FactorBlocks(weights)
    measured: dict[str, Array] = {}
    for module in modules:
        if min(module.rank, module.in_features, module.out_features) > MAX_MEASURED_RANK:
            what = f"has rank {module.rank}; ranks above {MAX_MEASURED_RANK} are not measured"
            findings.add("A_UNKNOWN_TENSOR", module.name, what)
            continue
        try:
            values = _spectrum(module, blocks)
        except (NonFiniteFactorError, np.linalg.LinAlgError):
            _record_nonfinite(module, weights, findings)
            continue
        if not np.isfinite(values).all():
            findings.add("E_NONFINITE", module.name, "scale*B*A leaves the range of float64; check lora_alpha")
            continue
        measured[module.name] = values
    return measured


def check_others(entries: Iterable[TensorEntry], weights: WeightFiles, findings: Findings) -> None:
    """Record values that are not finite in tensors that are no factors."""
    for entry in entries:
        count = sum(count_nonfinite(block, entry.dtype) for block in stored_blocks(weights, entry))
        if count:
            findings.add("E_NONFINITE", entry.name, _tell(count, entry))


def _spectrum(module: Module, blocks: FactorBlocks) -> Array:
    """Return |scale| times the singular values of B @ A; float64 factors are first brought near 1."""
    shift_a = _exponent(blocks.a_blocks(module)) if module.a.dtype == "F64" else 0
    shift_b = _exponent(blocks.b_blocks(module)) if module.b.dtype == "F64" else 0
    values = singular_values(
        lambda: _shifted(blocks.a_blocks(module), shift_a),
        lambda: _shifted(blocks.b_blocks(module), shift_b),
        rank=module.rank,
        in_features=module.in_features,
        out_features=module.out_features,
    )
    with np.errstate(all="ignore"):
        return np.ldexp(values * abs(module.scale), shift_a + shift_b)


def _exponent(pieces: Iterable[Array]) -> int:
    largest = 0.0
    for piece in pieces:
        size = float(np.abs(piece).max())
        if not np.isfinite(size):
            raise NonFiniteFactorError
        largest = max(largest, size)
    return int(np.frexp(largest)[1])


def _shifted(pieces: Iterable[Array], shift: int) -> Iterator[Array]:
    for piece in pieces:
        yield np.ldexp(piece, -shift) if shift else piece


def _record_nonfinite(module: Module, weights: WeightFiles, findings: Findings) -> None:
    told = set(findings.places("E_NONFINITE"))
    for entry in (module.a, module.b):
        count = sum(count_nonfinite(block, entry.dtype) for block in stored_blocks(weights, entry))
        if count and entry.name not in told:
            findings.add("E_NONFINITE", entry.name, _tell(count, entry))


def _tell(count: int, entry: TensorEntry) -> str:
    return f"{count} of {entry.num_elements} values are NaN or infinite; the training diverged or the cast overflowed"
