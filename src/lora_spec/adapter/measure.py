"""The spectrum of each module of an opened adapter, and the search for values that are not finite."""

import functools
import math
from collections.abc import Iterable, Iterator, Mapping

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
BEYOND_FLOAT64 = "the norm of scale*B*A is beyond float64; check lora_alpha and the factors"
_TOO_MUCH_WORK = "the measurement would take more work than a file of this size on the disk may cause"


def measure_modules(
    modules: Iterable[Module], weights: WeightFiles, findings: Findings, budget: WorkBudget
) -> dict[str, Array]:
    """Return the singular values of scale * B @ A by module name; record values that are not finite.

    A module that cannot be measured in bounded memory and with the work that is left, or whose norm is beyond float64,
    is recorded and left out.
    """
    blocks = FactorBlocks(weights)
    measured: dict[str, Array] = {}
    for module in modules:
        reason = _refuse(module, budget)
        if reason:
            findings.add("A_UNKNOWN_TENSOR", module.name, reason)
            continue
        try:
            values = _spectrum(module, blocks, budget)
        except NonFiniteFactorError:
            continue  # told where all tensors are searched
        except TooMuchWorkError:
            findings.add("A_UNKNOWN_TENSOR", module.name, f"has rows that depend on each other; {_TOO_MUCH_WORK}")
            continue
        except np.linalg.LinAlgError:
            findings.add("A_UNKNOWN_TENSOR", module.name, "is not measured: its singular values do not converge")
            continue
        if math.isfinite(math.hypot(*values.tolist())):
            measured[module.name] = values
        else:
            findings.add("E_NONFINITE", module.name, BEYOND_FLOAT64)
    if not math.isfinite(math.hypot(*(math.hypot(*values.tolist()) for values in measured.values()))):
        findings.add("E_NONFINITE", "lora_alpha", BEYOND_FLOAT64)
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


def check_finite(entries: Iterable[TensorEntry], weights: WeightFiles, findings: Findings) -> None:
    """Record tensors that hold NaN or infinity; those beyond a limit are not read."""
    bytes_left = MAX_OTHER_BYTES
    for entry in entries:
        count = 0
        for block in stored_blocks(weights, entry):
            bytes_left -= block.nbytes
            if bytes_left < 0:
                what = f"is not read: {MAX_OTHER_BYTES // 2**30} GiB beside the measured factors were read already"
                findings.add("A_UNKNOWN_TENSOR", entry.name, what)
                break
            count += count_nonfinite(block, entry.dtype)
        if count:
            findings.add("E_NONFINITE", entry.name, _tell(count, entry))


def known_finite(modules: Iterable[Module], measured: Mapping[str, Array]) -> set[str]:
    """Return the tensors whose every value went into a measured spectrum, and so is finite."""
    read = {entry.name for module in modules for entry in (module.a, module.b)}
    return read - {e.name for module in modules if module.name not in measured for e in (module.a, module.b)}


def _spectrum(module: Module, blocks: FactorBlocks, budget: WorkBudget) -> Array:
    """Return |scale| times the singular values of B @ A.

    Float64 factors are first brought near 1, each row of A and each column of B by a power of two of its own: their
    squares would leave the range of float64. What is 2^-1000 of the largest term b_i a_i is lost by it.
    """
    shift_a = shift_b = np.zeros(module.rank, dtype=int)
    largest = 0
    if "F64" in (module.a.dtype, module.b.dtype):
        size_a = _largest(np.abs(piece).max(axis=1) for piece in blocks.a_blocks(module))
        size_b = _largest(np.abs(piece).max(axis=0) for piece in blocks.b_blocks(module))
        shift_a, shift_b, largest = rank_shifts(size_a, size_b)
    values = singular_values(
        lambda: _shifted(blocks.a_blocks(module), shift_a[:, None]),
        lambda: _shifted(blocks.b_blocks(module), shift_b),
        rank=module.rank,
        in_features=module.in_features,
        out_features=module.out_features,
        budget=budget,
    )
    mantissa, exponent = math.frexp(abs(module.scale))
    with np.errstate(all="ignore"):
        return np.ldexp(values * mantissa, largest + exponent)


def _largest(sizes: Iterable[Array]) -> Array:
    """Return the element-wise maximum; NaN and infinity win."""
    total = functools.reduce(np.maximum, sizes)
    if not np.isfinite(total).all():
        raise NonFiniteFactorError
    return total


def rank_shifts(size_a: Array, size_b: Array) -> tuple[NDArray[np.int_], NDArray[np.int_], int]:
    """Return the exponents to add to each row of A and column of B, and the exponent of B @ A that this takes out.

    With them every term b_i a_i keeps its size beside the others, the largest is near 1, and its two factors share it.
    """
    exponents_a, exponents_b = np.frexp(size_a)[1].astype(int), np.frexp(size_b)[1].astype(int)
    terms = exponents_a + exponents_b
    active = (size_a > 0) & (size_b > 0)
    largest = int(terms[active].max()) if active.any() else 0
    below = np.minimum(terms - largest, 0)
    return below // 2 - exponents_a, below - below // 2 - exponents_b, largest


def _shifted(pieces: Iterable[Array], shift: NDArray[np.int_]) -> Iterator[Array]:
    for piece in pieces:
        yield np.ldexp(piece, shift) if shift.any() else piece


def _tell(count: int, entry: TensorEntry) -> str:
    return f"{count} of {entry.num_elements} values are NaN or infinite; the training diverged or the cast overflowed"
