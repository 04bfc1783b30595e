"""Read the factors of a module piece by piece, so that memory stays small whatever a file holds."""

from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.decode import to_float64, view_stored
from lora_spec.adapter.dtypes import BITS
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.modules import Module
from lora_spec.adapter.shards import WeightFiles

Array = NDArray[np.float64]
Stored = NDArray[np.generic]
_BLOCK_ELEMENTS = 2**15  # 256 KB of float64: stays in the cache from decoding to multiplying
_LARGEST_ELEMENTS = 2**21  # of a block where the rank is high
_WHOLE_BYTES = 48 * 2**20  # larger factors are read in pieces
_READ_BYTES = 8 * 2**20  # such a piece: large enough that many short reads do not cost more than the values
_TRANSPOSED_ROWS = 4  # so few of a stack stay in the cache while they are turned around
_SCANNED_BYTES = 4 * 2**20


class FactorBlocks:
    """The factors of one tensor pair at a time; what was read of the last pair is kept for its other experts."""

    def __init__(self, weights: WeightFiles) -> None:
        self._weights = weights
        self._kept: dict[str, tuple[tuple[object, ...], Stored]] = {}  # by factor: which piece of the file, its values

    def a_blocks(self, module: Module) -> Iterator[Array]:
        """Yield A in pieces of columns, each of shape ``(rank, some)``."""
        first, columns = module.expert * module.rank, module.in_features
        step = _block_length(module.rank)
        for stored in self._a_strips(module.a, columns, first, module.rank):
            for start in range(0, stored.shape[1], step):
                yield to_float64(stored[:, start : start + step], module.a.dtype)

    def b_blocks(self, module: Module) -> Iterator[Array]:
        """Yield B in pieces of rows, each of shape ``(some, rank)``."""
        step = _block_length(module.rank)
        strips = self._b_expert(module) if module.layout == "expert_rows" else self._b_strips(module)
        for stored in strips:
            for start in range(0, stored.shape[0], step):
                yield to_float64(stored[start : start + step], module.b.dtype)

    def factors(self, module: Module) -> tuple[Array, Array]:
        """Return A, shape ``(rank, in_features)``, and B, shape ``(out_features, rank)``, as float64."""
        a = np.concatenate(list(self.a_blocks(module)), axis=1)
        return a, np.concatenate(list(self.b_blocks(module)), axis=0)

    def _a_strips(self, entry: TensorEntry, columns: int, first: int, rank: int) -> Iterator[Stored]:
        stored = self._slice("a", entry, first * columns, (first + rank) * columns)
        if stored is not None:
            yield stored.reshape(rank, columns)
            return
        step = max(1, _READ_BYTES // (rank * _size(entry)))
        for start in range(0, columns, step):
            stop = min(columns, start + step)
            rows = range(first, first + rank)
            yield np.stack([self._read(entry, row * columns + start, row * columns + stop) for row in rows])

    def _b_strips(self, module: Module) -> Iterator[Stored]:
        first = module.expert * module.out_features if module.layout == "expert_batch" else 0
        rows, rank = module.out_features, module.rank
        stored = self._slice("b", module.b, first * rank, (first + rows) * rank)
        return self._rows(module.b, rank, first, rows) if stored is None else iter((stored.reshape(rows, rank),))

    def _b_expert(self, module: Module) -> Iterator[Stored]:
        """Yield one expert's columns of a stacked B, gathered together with those of as many others as may be held."""
        entry, num_experts = module.b, module.num_experts
        group = max(1, min(num_experts, _WHOLE_BYTES // (module.out_features * module.rank * _size(entry))))
        first = module.expert // group * group
        held = self._keep("b", (entry.name, "experts", first), lambda: self._gather(module, first, group))
        yield held[module.expert - first]

    def _gather(self, module: Module, first: int, count: int) -> Stored:
        """Return the B of several experts, shape ``(count, out_features, rank)``."""
        last = min(first + count, module.num_experts)
        held, row = None, 0
        for strip in self._rows(module.b, module.rank * module.num_experts, 0, module.out_features):
            if held is None:
                held = np.empty((last - first, module.out_features, module.rank), dtype=strip.dtype)
            picked = strip.reshape(-1, module.rank, module.num_experts)[:, :, first:last]
            for start in range(0, len(strip), _TRANSPOSED_ROWS):
                some = picked[start : start + _TRANSPOSED_ROWS]
                held[:, row : row + len(some)] = some.transpose(2, 0, 1)
                row += len(some)
        return held

    def _rows(self, entry: TensorEntry, width: int, first: int, count: int) -> Iterator[Stored]:
        step = max(1, _READ_BYTES // (width * _size(entry)))
        for start in range(first, first + count, step):
            stop = min(first + count, start + step)
            yield self._read(entry, start * width, stop * width).reshape(-1, width)

    def _slice(self, factor: str, entry: TensorEntry, start: int, stop: int) -> Stored | None:
        """Return stored numbers ``start`` to ``stop`` of a tensor, None where they are too many to hold."""
        if entry.end - entry.start <= _WHOLE_BYTES:
            whole = self._keep(factor, (entry.name,), lambda: self._read(entry, 0, entry.num_elements))
            return whole[start:stop]
        if (stop - start) * _size(entry) > _WHOLE_BYTES:
            return None
        return self._keep(factor, (entry.name, start), lambda: self._read(entry, start, stop))

    def _keep(self, factor: str, key: tuple[object, ...], read: Callable[[], Stored]) -> Stored:
        if factor not in self._kept or self._kept[factor][0] != key:
            self._kept.pop(factor, None)  # before the next is read: never two at once
            self._kept[factor] = key, read()
        return self._kept[factor][1]

    def _read(self, entry: TensorEntry, start: int, stop: int) -> Stored:
        size = _size(entry)
        raw = self._weights.files[entry.file].read_at(entry.start + start * size, (stop - start) * size)
        return view_stored(raw, entry.dtype)


def _block_length(rank: int) -> int:
    """Return how many columns of A, or rows of B, make a block: about ``rank``, so that sums do not cost more."""
    return max(1, _BLOCK_ELEMENTS // rank, min(rank, _LARGEST_ELEMENTS // rank))


def _size(entry: TensorEntry) -> int:
    return BITS[entry.dtype] // 8


def stored_blocks(weights: WeightFiles, entry: TensorEntry) -> Iterator[Stored]:
    """Yield the stored numbers of any tensor in flat pieces of at most 4 MB, without those in holes, all zeros."""
    file = weights.files[entry.file]
    for first, last in file.data_ranges(entry.start, entry.end):
        # Whole numbers only: of at most 16 bytes each, counted from where the tensor begins.
        begin = entry.start + (first - entry.start) // 16 * 16
        end = min(entry.end, entry.start + -((entry.start - last) // 16) * 16)
        for start in range(begin, end, _SCANNED_BYTES):
            yield view_stored(file.read_at(start, min(_SCANNED_BYTES, end - start)), entry.dtype)
