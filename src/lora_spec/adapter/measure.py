"""The spectrum of each module of an opened adapter, and the search for values that are not finite."""

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.blocks import FactorBlocks, stored_blocks
from lora_spec.adapter.decode import count_nonfinite
from lora_spec.adapter.findings import Findings
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.limits import (
    MAX_HELD_ELEMENTS,
    MAX_MEASURED_RANK,
    MAX_OTHER_BYTES,
    MAX_STACK_BYTES,
    WorkBudget,
    spectrum_work,
)
from lora_spec.adapter.modules import Module
from lora_spec.adapter.shards import WeightFiles
from lora_spec.adapter.spectrum import NonFiniteFactorError, TooMuchWorkError, singular_values

Array = NDArray[np.float64]
_TOO_MUCH_WORK = "the measurement would take more work than a file of this size on the disk may cause"


def measure_modules(
    modules: Iterable[Module], weights: WeightFiles, findings: Findings, budget: WorkBudget
) -> dict[str, Array]:
    """Return the singular values of scale * B @ A by module name; record values that are not finite.

    A module that cannot be measured in bounded memory and with the work that is left is recorded and left out.
    """
    blocks = FactorBlocks(weights)
    measured: dict[str, Array] = {}
    nonfinite: set[str] = set()  # tensors told so far: experts share theirs
    for module in modules:
        reason = _refuse(module, budget)
        if reason:
            findings.add("A_UNKNOWN_TENSOR", module.name, reason)
            continue
        try:
            values = _spectrum(module, blocks, budget)
        except (NonFiniteFactorError, np.linalg.LinAlgError):
            _record_nonfinite(module, weights, findings, nonfinite)
            continue
        except TooMuchWorkError:
            findings.add("A_UNKNOWN_TENSOR", module.name, f"has rows that depend on each other; {_TOO_MUCH_WORK}")
            continue
        if not np.isfinite(values).all():
            findings.add("E_NONFINITE", module.name, "scale*B*A leaves the range of float64; check lora_alpha")
            continue
        measured[module.name] = values
    return measured


def _refuse(module: Module, budget: WorkBudget) -> str | None:
    """Return why a module is not measured, None where it is; takes its work from the budget."""
    rank, elements = module.rank, module.rank * (module.in_features + module.out_features)
    is_high = rank > MAX_MEASURED_RANK
    if is_high and (elements > MAX_HELD_ELEMENTS or min(module.in_features, module.out_features) > MAX_MEASURED_RANK):
        return f"has rank {rank}; ranks above {MAX_MEASURED_RANK} are not measured"
    if module.layout == "expert_rows" and module.num_experts > 1 and module.b.end - module.b.start > MAX_STACK_BYTES:
        return f"stacks more than {MAX_STACK_BYTES // 2**20} MiB of experts; they are not measured"
    if not budget.take(spectrum_work(rank, module.in_features, module.out_features)):
        return f"is not measured; {_TOO_MUCH_WORK}"
    return None


def check_others(entries: Iterable[TensorEntry], weights: WeightFiles, findings: Findings) -> None:
    """Record values that are not finite in tensors that are no factors; those beyond a limit are not read."""
    bytes_left = MAX_OTHER_BYTES
    for entry in entries:
        count = 0
        for block in stored_blocks(weights, entry):
            bytes_left -= block.nbytes
            if bytes_left < 0:
                what = f"is not read: {MAX_OTHER_BYTES // 2**30} GiB beside the factors were read already"
                findings.add("A_UNKNOWN_TENSOR", entry.name, what)
                break
            count += count_nonfinite(block, entry.dtype)
        if count:
            findings.add("E_NONFINITE", entry.name, _tell(count, entry))


def _spectrum(module: Module, blocks: FactorBlocks, budget: WorkBudget) -> Array:
    """Return |scale| times the singular values of B @ A; float64 factors are first brought near 1."""
    shift_a = _exponent(blocks.a_blocks(module)) if module.a.dtype == "F64" else 0
    shift_b = _exponent(blocks.b_blocks(module)) if module.b.dtype == "F64" else 0
    values = singular_values(
        lambda: _shifted(blocks.a_blocks(module), shift_a),
        lambda: _shifted(blocks.b_blocks(module), shift_b),
        rank=module.rank,
        in_features=module.in_features,
        out_features=module.out_features,
        budget=budget,
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


def _record_nonfinite(module: Module, weights: WeightFiles, findings: Findings, told: set[str]) -> None:
    for entry in (module.a, module.b):
        if entry.name in told:
            continue
        count = sum(count_nonfinite(block, entry.dtype) for block in stored_blocks(weights, entry))
        if count:
            told.add(entry.name)
            findings.add("E_NONFINITE", entry.name, _tell(count, entry))


def _tell(count: int, entry: TensorEntry) -> str:
    return f"{count} of {entry.num_elements} values are NaN or infinite; the training diverged or the cast overflowed"
