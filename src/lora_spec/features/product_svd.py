"""The singular vectors of B @ A from its factors: what of an update does not depend on how it is factored."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.measure import rank_shifts

Array = NDArray[np.float64]
_NULL_LEVEL = 1e-10
_MIN_UNCANCELLED = 1e-9
_MAX_FORMED = 2**22


class ProductSvd(NamedTuple):
    """B @ A = factor * left @ diag(values) @ right.T without its null directions; the factor is not told.

    Parameters
    ----------
    left, values, right
        Shapes ``(out_features, k)``, ``(k,)`` descending, ``(in_features, k)``; k is the rank of B @ A, 0 for zero.
    """

    left: Array
    values: Array
    right: Array


def svd_of_product(a: Array, b: Array) -> ProductSvd:
    """Return the decomposition of B @ A, A of shape ``(rank, in_features)``, B of shape ``(out_features, rank)``.

    A direction counts as null below 1e-10 sigma_1 and below the rounding of the factors, eps * sum |a_i| |b_i|.
    """
    shift_a, shift_b, _ = rank_shifts(np.abs(a).max(axis=1), np.abs(b).max(axis=0))
    a, b = np.ldexp(a, shift_a[:, None]), np.ldexp(b, shift_b)
    size_a, size_b = np.linalg.norm(a, axis=1), np.linalg.norm(b, axis=0)
    active = (size_a > 0) & (size_b > 0)
    if not active.any():
        return ProductSvd(np.zeros((b.shape[0], 0)), np.zeros(0), np.zeros((a.shape[1], 0)))
    a, b, size_a, size_b = a[active], b[:, active], size_a[active], size_b[active]
    balance = np.sqrt(size_b / size_a)
    left, values, right = _decompose(a * balance[:, None], b / balance)
    terms = float(np.sum(size_a * size_b))
    rounding = 4 * np.finfo(float).eps * terms
    if values[0] < _MIN_UNCANCELLED * terms and a.shape[1] * b.shape[0] <= _MAX_FORMED:
        left, values, transposed = np.linalg.svd(b @ a, full_matrices=False)
        right, rounding = transposed.T, rounding / 4
    kept = values > max(_NULL_LEVEL * values[0], rounding)
    kept[a.shape[0] :] = False
    return ProductSvd(left[:, kept], values[kept], right[:, kept])


def _decompose(a: Array, b: Array) -> tuple[Array, Array, Array]:
    basis_a, triangle_a = np.linalg.qr(a.T)
    basis_b, triangle_b = np.linalg.qr(b)
    left, values, right = np.linalg.svd(triangle_b @ triangle_a.T, full_matrices=False)
    return basis_b @ left, values, basis_a @ right.T
