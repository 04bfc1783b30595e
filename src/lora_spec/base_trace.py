"""What was recorded of a base target, as it passes from the engine that ran it to the features that use it.

Knows nothing of engines, files or adapters.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.floating]
BEST, SECOND, OTHER = 0, 1, 2
"""Which of the target's two best tokens the drafter ranks first, or another one."""


@dataclass(frozen=True)
class InputMoments:
    """The second moment E[x x'] of one input over all output positions, by its largest eigenvalues.

    Parameters
    ----------
    directions, energies
        Eigenvectors, shape ``(in_features, k)``, and their eigenvalues, descending, shape ``(k,)``.
    total
        E[x'x], the sum of all eigenvalues.
    """

    directions: Array
    energies: Array
    total: float


@dataclass(frozen=True)
class ModuleTrace:
    """One linear module.

    Parameters
    ----------
    input_name
        The first module that reads the same input; its moments are this one's.
    output_energy
        E[y'y] of the module's own output over all output positions.
    inputs, gradients
        Factors of G at each traced position, shapes ``(num_positions, num_pairs, in_features)`` and
        ``(num_positions, num_pairs, out_features)``: G is about ``sum_i gradients[t, i] inputs[t, i]'``.
    kept_share
        Share of G's squared norm that the kept terms hold, over all positions.
    """

    name: str
    input_name: str
    output_energy: float
    inputs: Array
    gradients: Array
    kept_share: float


@dataclass(frozen=True)
class BaseTrace:
    """All that was recorded of one pair.

    Parameters
    ----------
    margins
        Best minus second-best logit at each traced position, shape ``(num_positions,)``.
    drafter_choices
        ``BEST``, ``SECOND`` or ``OTHER`` at each traced position.
    places
        Of each traced position its text, its output position there, the best and the second-best token, shape
        ``(num_positions, 4)``.
    texts
        Prompt tokens and output tokens of each of the target's greedy texts.
    num_tokens
        Output positions that the moments are taken over.
    """

    modules: tuple[ModuleTrace, ...]
    moments: dict[str, InputMoments]
    margins: Array
    drafter_choices: NDArray[np.uint8]
    places: NDArray[np.int32]
    texts: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    num_layers: int
    num_tokens: int
