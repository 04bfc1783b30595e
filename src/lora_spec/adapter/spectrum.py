"""Singular values of scale * B @ A from the factors alone; the product is never formed where it is the larger.

With G_A = A A^T and G_B = B^T B (both rank x rank), the squared singular values of B A are the eigenvalues of
L^T G_B L with G_A = L L^T. Forming a Gram matrix halves the digits, so where the factors cancel or are badly
conditioned the triangular factors of two QR decompositions take its place: svd(R_B R_A^T).
"""

import math
from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.limits import WorkBudget, triangle_work

Array = NDArray[np.float64]
Blocks = Callable[[], Iterable[Array]]
# Above this ratio of sum |a_i|^2 |b_i|^2 terms to |BA|^2, the Gram route keeps fewer than nine digits.
_MAX_CANCELLATION = 1e6
_ZERO_LEVEL = 1e-14
_TRIANGLE_ELEMENTS = 2**21  # 16 MB of rows are gathered before they are brought into the triangle


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
        Shape ``(min(rank, in_features, out_features),)``; exact zeros for a zero update.

    Raises
    ------
    NonFiniteFactorError
        A factor holds NaN or infinity, or squares that leave the range of float64.
    TooMuchWorkError
        The budget does not allow the slow way.
    """
    count = min(rank, in_features, out_features)
    if rank > min(in_features, out_features):
        return _from_short_side(a_blocks, b_blocks, rank, out_features <= in_features)
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
        if budget is not None and not budget.take(triangle_work(int(active.sum()), in_features + out_features)):
            raise TooMuchWorkError
        values = _from_triangles(a_blocks, b_blocks, active)
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


def _from_triangles(a_blocks: Blocks, b_blocks: Blocks, active: NDArray[np.bool_]) -> Array:
    width = int(active.sum())
    triangle_a = _triangle((block.T[:, active] for block in a_blocks()), width)
    triangle_b = _triangle((block[:, active] for block in b_blocks()), width)
    size_a, size_b = np.linalg.norm(triangle_a, axis=0), np.linalg.norm(triangle_b, axis=0)
    balance = np.sqrt(size_b / size_a)
    values = np.linalg.svd((triangle_b / balance) @ (triangle_a * balance).T, compute_uv=False)
    # What is left after complete cancellation is rounding, not an update.
    level = _ZERO_LEVEL * float(np.sum(size_a * size_b))
    return values if values.size and values[0] > level else np.zeros_like(values)


def _from_short_side(a_blocks: Blocks, b_blocks: Blocks, rank: int, is_b_shorter: bool) -> Array:
    """Return the singular values where the rank is above the smaller of the sizes: only that factor is held."""
    size_a, size_b = np.zeros(rank), np.zeros(rank)

    def rows() -> Iterator[Array]:
        for block in a_blocks() if is_b_shorter else b_blocks():
            streamed = block.T if is_b_shorter else block
            sizes = size_a if is_b_shorter else size_b
            sizes += np.einsum("ij,ij->j", streamed, streamed)
            yield streamed @ held

    with np.errstate(all="ignore"):
        if is_b_shorter:
            held = np.concatenate([block.T for block in b_blocks()], axis=1)
            size_b += np.einsum("ij,ij->i", held, held)
        else:
            held = np.concatenate(list(a_blocks()), axis=1)
            size_a += np.einsum("ij,ij->i", held, held)
        triangle = _triangle(rows(), held.shape[1])
    if not (np.isfinite(size_a).all() and np.isfinite(size_b).all() and np.isfinite(triangle).all()):
        raise NonFiniteFactorError
    values = np.linalg.svd(triangle, compute_uv=False)
    level = _ZERO_LEVEL * float(np.sum(np.sqrt(size_a * size_b)))
    return values if values.size and values[0] > level else np.zeros_like(values)
