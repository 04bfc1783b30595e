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

Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
# Above this ratio of sum |a_i|^2 |b_i|^2 terms to |BA|^2, the Gram route keeps fewer than nine digits.
_MAX_CANCELLATION = 1e6
# Below this ratio of sigma_1 to sum |a_i| |b_i|, decompositions of the factors keep fewer than six digits.
_MIN_UNCANCELLED = 1e-9
_MAX_FORMED = 2**30  # out * in * rank of a product that may be formed; above, cancelled values are rounding
_OVERSAMPLED = 8


class NonFiniteFactorError(ValueError):
    """A factor holds NaN or infinity, or its squares leave the range of float64."""


def singular_values(a_blocks: Blocks, b_blocks: Blocks, *, rank: int, in_features: int, out_features: int) -> Array:
    """Return the singular values of B @ A, descending.

    Parameters
    ----------
    a_blocks
        Gives A in pieces of shape ``(rank, some)``; may be called more than once.
    b_blocks
        Gives B in pieces of shape ``(some, rank)``; may be called more than once.

    Returns
    -------
    Array
        Shape ``(min(rank, in_features, out_features),)``; exact zeros if a factor or the product in float64 is zero.
    """
    count = min(rank, in_features, out_features)
    if rank > min(in_features, out_features):
        return _from_product(a_blocks, b_blocks, in_features, out_features)
    with np.errstate(all="ignore"):
        gram_a, gram_b = _gram(block.T for block in a_blocks()), _gram(b_blocks())
    squared_a, squared_b = np.diagonal(gram_a), np.diagonal(gram_b)
    if not (np.isfinite(squared_a).all() and np.isfinite(squared_b).all()):
        raise NonFiniteFactorError
    active = (squared_a > 0) & (squared_b > 0)
    if not active.any():
        return np.zeros(count)
    with np.errstate(all="ignore"):
        values = _from_grams(gram_a[np.ix_(active, active)], gram_b[np.ix_(active, active)])
    if values is None:
        values, uncancelled = _from_triangles(a_blocks, b_blocks, active)
        if uncancelled < _MIN_UNCANCELLED and rank * in_features * out_features <= _MAX_FORMED:
            values = _from_formed(a_blocks, b_blocks, rank, in_features, out_features)
    return _padded(values, count)


def _padded(values: Array, count: int) -> Array:
    padded = np.zeros(count)
    padded[: min(count, values.size)] = values[:count]
    return padded


def _gram(blocks: Iterable[Array]) -> Array:
    """Return X^T X summed over row blocks of X."""
    total: Array | None = None
    for block in blocks:
        product = block.T @ block
        total = product if total is None else total + product
    return total


def _from_grams(gram_a: Array, gram_b: Array) -> Array | None:
    """Return the singular values, or None where rounding would leave too few digits."""
    # Balance: row i of A times d_i and column i of B by 1/d_i leaves B A as it is and takes out their scales.
    root = np.diagonal(gram_b) ** 0.25 / np.diagonal(gram_a) ** 0.25
    balance = np.outer(root, root)
    if not np.isfinite(balance).all() or not balance.all():
        return None
    gram_a, gram_b = gram_a * balance, gram_b / balance
    try:
        lower = np.linalg.cholesky(gram_a)
    except np.linalg.LinAlgError:
        return None
    core = lower.T @ gram_b @ lower
    squared = np.linalg.eigvalsh((core + core.T) / 2)[::-1]
    bound = float(np.trace(gram_a) * np.trace(gram_b))
    total = float(squared.clip(0).sum())
    if not math.isfinite(bound) or total <= 0 or bound > _MAX_CANCELLATION * total:
        return None
    return np.sqrt(squared.clip(0))


def _triangle(blocks: Iterable[Array], active: NDArray[np.bool_]) -> Array:
    """Return R of the QR decomposition of a tall matrix that comes in row blocks."""
    triangle = np.zeros((0, int(active.sum())))
    for block in blocks:
        triangle = np.linalg.qr(np.vstack([triangle, block[:, active]]), mode="r")
    return triangle


def _from_triangles(a_blocks: Blocks, b_blocks: Blocks, active: NDArray[np.bool_]) -> tuple[Array, float]:
    """Return the singular values, and how far the terms cancel: sigma_1 / sum |a_i| |b_i|."""
    triangle_a = _triangle((block.T for block in a_blocks()), active)
    triangle_b = _triangle(b_blocks(), active)
    size_a, size_b = np.linalg.norm(triangle_a, axis=0), np.linalg.norm(triangle_b, axis=0)
    balance = np.sqrt(size_b / size_a)
    values = np.linalg.svd((triangle_b / balance) @ (triangle_a * balance).T, compute_uv=False)
    return values, float(values[0]) / float(np.sum(size_a * size_b))


def _from_formed(a_blocks: Blocks, b_blocks: Blocks, rank: int, in_features: int, out_features: int) -> Array:
    """Return the singular values of B A as its entries are in float64, without holding it whole."""
    width = min(rank + _OVERSAMPLED, in_features, out_features)
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
            yield slice(row, row + b.shape[0]), slice(column, column + a.shape[1]), b @ a
            column += a.shape[1]
        row += b.shape[0]


def _from_product(a_blocks: Blocks, b_blocks: Blocks, in_features: int, out_features: int) -> Array:
    """Return the singular values where the product is smaller than its factors."""
    if not all(np.isfinite(block).all() for blocks in (a_blocks, b_blocks) for block in blocks()):
        raise NonFiniteFactorError
    product = np.zeros((out_features, in_features))
    for rows, columns, piece in _pieces(a_blocks, b_blocks):
        product[rows, columns] = piece
    return np.linalg.svd(product, compute_uv=False)
