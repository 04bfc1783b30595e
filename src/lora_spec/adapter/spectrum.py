"""Singular values of scale * B @ A from the factors alone; the product is never formed where it is the larger.

With G_A = A A^T and G_B = B^T B (both rank x rank), the squared singular values of B A are the eigenvalues of
L^T G_B L with G_A = L L^T. Forming a Gram matrix halves the digits, so where the factors cancel or are badly
conditioned the triangular factors of two QR decompositions take its place: svd(R_B R_A^T). Where the terms b_i a_i
cancel so far that this too is mostly rounding, B A is formed piece by piece after all and seen through a random
subspace that holds its whole range (Halko et al. 2011, algorithm 4.1).
"""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.limits import (
    MAX_FORMED,
    MAX_FORMED_ELEMENTS,
    OVERSAMPLED,
    WorkBudget,
    formed_work,
    triangle_work,
)

Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
# Above this ratio of sum |a_i|^2 |b_i|^2 terms to |BA|^2, the Gram route keeps fewer than nine digits.
_MAX_CANCELLATION = 1e6
# Below this ratio of sigma_1 to sum |a_i| |b_i|, decompositions of the factors keep fewer than six digits.
_MIN_UNCANCELLED = 1e-9
_TRIANGLE_ELEMENTS = 2**21  # 16 MB of rows are gathered before they are brought into the triangle
_PIECE_ELEMENTS = 2**18  # of B A at once


class NonFiniteFactorError(ValueError):
    """A factor holds NaN or infinity, or its squares leave the range of float64."""


class TooMuchWorkError(ValueError):
    """The factors need the slow way, for which nothing is left of the work allowed."""


def singular_values(
    a_blocks: Blocks,
    b_blocks: Blocks,
    *,
    rank: int,
    in_features: int,
    out_features: int,
    budget: WorkBudget | None = None,
) -> Array:
    """Return the singular values of B @ A, descending.

    Parameters
    ----------
    a_blocks
        Gives A in pieces of shape ``(rank, some)``; may be called more than once.
    b_blocks
        Gives B in pieces of shape ``(some, rank)``; may be called more than once.
    budget
        Work that is left for the slow way, where the factors need it; without one it is unbounded.

    Returns
    -------
    Array
        Shape ``(min(rank, in_features, out_features),)``; exact zeros if a factor or the product in float64 is zero.

    Raises
    ------
    NonFiniteFactorError
        A factor holds NaN or infinity, or squares that leave the range of float64.
    TooMuchWorkError
        The budget does not allow the slow way.
    """
    count = min(rank, in_features, out_features)
    if rank > min(in_features, out_features):
        return _from_short_side(a_blocks, b_blocks, out_features <= in_features)
    with np.errstate(all="ignore"):
        gram_a, gram_b = _gram(block.T for block in a_blocks()), _gram(b_blocks())
    squared_a, squared_b = np.diagonal(gram_a), np.diagonal(gram_b)
    if not (np.isfinite(squared_a).all() and np.isfinite(squared_b).all()):
        raise NonFiniteFactorError
    active = (squared_a > 0) & (squared_b > 0)
    if not active.any():
        return np.zeros(count)
    if not active.all():
        gram_a, gram_b = gram_a[np.ix_(active, active)], gram_b[np.ix_(active, active)]
    with np.errstate(all="ignore"):
        values = _from_grams(gram_a, gram_b)
    if values is None:
        del gram_a, gram_b
        _take(budget, triangle_work(int(active.sum()), in_features + out_features))
        values, uncancelled = _from_triangles(a_blocks, b_blocks, active)
        if uncancelled < _MIN_UNCANCELLED and _may_be_formed(rank, in_features, out_features):
            _take(budget, formed_work(rank, in_features, out_features))
            values = _from_formed(a_blocks, b_blocks, rank, in_features, out_features)
    return _padded(values, count)


def _take(budget: WorkBudget | None, work: float) -> None:
    if budget is not None and not budget.take(work):
        raise TooMuchWorkError


def _may_be_formed(rank: int, in_features: int, out_features: int) -> bool:
    held = (rank + OVERSAMPLED) * (in_features + out_features)
    return rank * in_features * out_features <= MAX_FORMED and held <= MAX_FORMED_ELEMENTS


def _padded(values: Array, count: int) -> Array:
    padded = np.zeros(count)
    padded[: min(count, values.size)] = values[:count]
    return padded


def _gram(blocks: Iterable[Array]) -> Array:
    """Return X^T X summed over row blocks of X."""
    total: Array | None = None
    for block in blocks:
        product = block.T @ block
        if total is None:
            total = product
        else:
            total += product
    return total


def _from_grams(gram_a: Array, gram_b: Array) -> Array | None:
    """Return the singular values, or None where rounding would leave too few digits; overwrites both."""
    # Balance: row i of A times d_i and column i of B by 1/d_i leaves B A as it is and takes out their scales.
    root = np.diagonal(gram_b) ** 0.25 / np.diagonal(gram_a) ** 0.25
    balance = np.outer(root, root)
    if not np.isfinite(balance).all() or not balance.all():
        return None
    gram_a *= balance
    gram_b /= balance
    bound = float(np.trace(gram_a) * np.trace(gram_b))
    try:
        lower = np.linalg.cholesky(gram_a)
    except np.linalg.LinAlgError:
        return None
    core = lower.T @ gram_b @ lower
    core += core.T
    squared = np.linalg.eigvalsh(core)[::-1] / 2
    total = float(squared.clip(0).sum())
    if not math.isfinite(bound) or total <= 0 or bound > _MAX_CANCELLATION * total:
        return None
    return np.sqrt(squared.clip(0))


def _triangle(blocks: Iterable[Array], width: int) -> Array:
    """Return R of the QR decomposition of a tall matrix that comes in row blocks."""
    # Several times as many rows as the triangle has, so that it is not decomposed over and over for a few more.
    enough = max(1, width // 2, min(8 * width, _TRIANGLE_ELEMENTS // max(1, width)))
    waiting = [np.zeros((0, width))]
    num_rows = 0
    for block in blocks:
        waiting.append(block)
        num_rows += block.shape[0]
        if num_rows >= enough:
            waiting, num_rows = [np.linalg.qr(_stacked(waiting), mode="r")], 0
    return np.linalg.qr(_stacked(waiting), mode="r")


def _stacked(waiting: list[Array]) -> Array:
    stacked = np.vstack(waiting)
    waiting.clear()  # the pieces are not needed beside the whole
    return stacked


def _from_triangles(a_blocks: Blocks, b_blocks: Blocks, active: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return the singular values, and how far the terms cancel: sigma_1 / sum |a_i| |b_i|."""
    width = int(active.sum())
    triangle_a = _triangle((block.T[:, active] for block in a_blocks()), width)
    triangle_b = _triangle((block[:, active] for block in b_blocks()), width)
    size_a, size_b = np.linalg.norm(triangle_a, axis=0), np.linalg.norm(triangle_b, axis=0)
    balance = np.sqrt(size_b / size_a)
    values = np.linalg.svd((triangle_b / balance) @ (triangle_a * balance).T, compute_uv=False)
    return values, float(values[0]) / float(np.sum(size_a * size_b))


def _from_formed(a_blocks: Blocks, b_blocks: Blocks, rank: int, in_features: int, out_features: int) -> Array:
    """Return the singular values of B A as its entries are in float64, without holding it whole."""
    width = min(rank + OVERSAMPLED, in_features, out_features)
    start = np.random.default_rng(0).standard_normal((in_features, width))
    sketch = np.zeros((out_features, width))
    for rows, columns, product in _pieces(a_blocks, b_blocks):
        sketch[rows] += product @ start[columns]
    if not sketch.any():
        return np.zeros(width)
    basis = np.linalg.qr(sketch)[0]
    core = np.zeros((width, in_features))
    for rows, columns, product in _pieces(a_blocks, b_blocks):
        core[:, columns] += basis[rows].T @ product
    return np.linalg.svd(core, compute_uv=False)


def _pieces(a_blocks: Blocks, b_blocks: Blocks) -> Iterator[tuple[slice, slice, Array]]:
    """Yield B A in pieces, each with its rows and columns."""
    row = 0
    for b in b_blocks():
        column = 0
        for a in a_blocks():
            columns = slice(column, column + a.shape[1])
            step = max(1, _PIECE_ELEMENTS // a.shape[1])
            for start in range(0, b.shape[0], step):
                some = b[start : start + step]
                yield slice(row + start, row + start + some.shape[0]), columns, some @ a
            column += a.shape[1]
        row += b.shape[0]


def _from_short_side(a_blocks: Blocks, b_blocks: Blocks, is_b_shorter: bool) -> Array:
    """Return the singular values where the rank is above the smaller of the sizes: only that factor is held."""
    if is_b_shorter:
        held = np.concatenate([block.T for block in b_blocks()], axis=1)
        streamed = (block.T for block in a_blocks())
    else:
        held = np.concatenate(list(a_blocks()), axis=1)
        streamed = iter(b_blocks())
    _finite(held)
    with np.errstate(all="ignore"):
        triangle = _triangle((_finite(block) @ held for block in streamed), held.shape[1])
    return np.linalg.svd(_finite(triangle), compute_uv=False)


def _finite(values: Array) -> Array:
    if not np.isfinite(values).all():
        raise NonFiniteFactorError
    return values
