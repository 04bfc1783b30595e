"""Read the factors of a module piece by piece, so that memory stays small whatever a file holds."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.decode import to_float64, view_stored
from lora_spec.adapter.dtypes import BITS
from lora_spec.adapter.header import TensorEntry
from lora_spec.adapter.modules import Module
from lora_spec.adapter.shards import WeightFiles

Array = NDArray[np.float64]
_BLOCK_ELEMENTS = 2**15  # 256 KB of float64: stays in the cache from decoding to multiplying
_WHOLE_BYTES = 128 * 2**20  # larger tensors are read in pieces


class FactorBlocks:
    """The factors of one tensor pair at a time; the last pair's stored bytes are kept for its other experts."""

    def __init__(self, weights: WeightFiles) -> None:
        self._weights = weights
        self._kept: dict[str, NDArray[np.generic]] = {}
        self._kept_bytes = 0

    def a_blocks(self, module: Module) -> Iterator[Array]:
        """Yield A in pieces of columns, each of shape ``(rank, some)``."""
        first = module.expert * module.rank
        columns = module.in_features
        step = max(1, _BLOCK_ELEMENTS // module.rank)
        stored = self._stored(module.a, columns)
        for start in range(0, columns, step):
            stop = min(columns, start + step)
            if stored is None:
                piece = self._read_columns(module.a, columns, first, module.rank, start, stop)
            else:
                piece = stored[first : first + module.rank, start:stop]
            yield to_float64(piece, module.a.dtype)

    def b_blocks(self, module: Module) -> Iterator[Array]:
        """Yield B in pieces of rows, each of shape ``(some, rank)``."""
        width = module.rank * module.num_experts if module.layout == "expert_rows" else module.rank
        first = module.expert * module.out_features if module.layout == "expert_batch" else 0
        pick = slice(module.expert, None, module.num_experts) if module.layout == "expert_rows" else slice(None)
        step = max(1, _BLOCK_ELEMENTS // width)
        stored = self._stored(module.b, width)
        for start in range(0, module.out_features, step):
            stop = min(module.out_features, start + step)
            rows = slice(first + start, first + stop)
            piece = self._read_rows(module.b, width, rows) if stored is None else stored[rows]
            yield to_float64(piece[:, pick], module.b.dtype)

    def factors(self, module: Module) -> tuple[Array, Array]:
        """Return A, shape ``(rank, in_features)``, and B, shape ``(out_features, rank)``, as float64."""
        a = np.concatenate(list(self.a_blocks(module)), axis=1)
        return a, np.concatenate(list(self.b_blocks(module)), axis=0)

    def _stored(self, entry: TensorEntry, width: int) -> NDArray[np.generic] | None:
        if entry.end - entry.start > _WHOLE_BYTES:
            return None
        if entry.name not in self._kept:
            if len(self._kept) > 1:
                self._kept.clear()
            raw = self._weights.files[entry.file].read_at(entry.start, entry.end - entry.start)
            self._kept[entry.name] = view_stored(raw, entry.dtype)
        return self._kept[entry.name].reshape(-1, width)

    def _read_rows(self, entry: TensorEntry, width: int, rows: slice) -> NDArray[np.generic]:
        row_bytes = width * BITS[entry.dtype] // 8
        raw = self._weights.files[entry.file].read_at(
            entry.start + rows.start * row_bytes, (rows.stop - rows.start) * row_bytes
        )
        return view_stored(raw, entry.dtype).reshape(-1, width)

    def _read_columns(
        self, entry: TensorEntry, width: int, first: int, count: int, start: int, stop: int
    ) -> NDArray[np.generic]:
        size = BITS[entry.dtype] // 8
        file = self._weights.files[entry.file]
        rows = [
            view_stored(file.read_at(entry.start + (row * width + start) * size, (stop - start) * size), entry.dtype)
            for row in range(first, first + count)
        ]
        return np.stack(rows)


def stored_blocks(weights: WeightFiles, entry: TensorEntry) -> Iterator[NDArray[np.generic]]:
    """Yield the stored numbers of any tensor in flat pieces of at most 16 MB."""
    piece = 16 * 2**20
    for start in range(entry.start, entry.end, piece):
        raw = weights.files[entry.file].read_at(start, min(piece, entry.end - start))
        yield view_stored(raw, entry.dtype)
