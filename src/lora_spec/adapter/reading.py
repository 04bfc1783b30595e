"""Iterate over the factors of an adapter, one module in memory at a time."""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from lora_spec.adapter.inspection import open_adapter
from lora_spec.adapter.modules import Module
from lora_spec.errors import AdapterError

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


class Factors(NamedTuple):
    """A module with its values: A of shape ``(rank, in_features)``, B of shape ``(out_features, rank)``, float64."""

    module: Module
    a: "NDArray[np.float64]"
    b: "NDArray[np.float64]"


def iterate_factors(path: Path) -> Iterator[Factors]:
    """Yield the factors of every module (experts apart), decoded to float64, in the order of the file.

    Raises
    ------
    AdapterError
        The adapter has errors, or its files changed while they were read.
    """
    from lora_spec.adapter.blocks import FactorBlocks

    with open_adapter(path) as opened:
        if opened.findings.has_errors:
            raise AdapterError(opened.findings.message(), codes=opened.findings.codes)
        blocks = FactorBlocks(opened.weights)
        for module in opened.modules:
            yield Factors(module, *blocks.factors(module))
        opened.weights.refuse_if_changed()
