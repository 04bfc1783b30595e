"""Stored numbers into floats, without torch: bfloat16, float16, float8, float32, float64."""

import numpy as np
from numpy.typing import NDArray

from lora_spec.adapter.dtypes import FACTOR_TYPES, WHOLE_NUMBER_TYPES

_STORED = {
    "F64": "<f8",
    "F32": "<f4",
    "F16": "<f2",
    "BF16": "<u2",
    "C64": "<f4",
}
# (exponent bits, mantissa bits, bias, has the FNUZ meaning: no infinity, no negative zero, one NaN)
_FLOAT8 = {
    "F8_E5M2": (5, 2, 15, False),
    "F8_E4M3": (4, 3, 7, False),
    "F8_E5M2FNUZ": (5, 2, 16, True),
    "F8_E4M3FNUZ": (4, 3, 8, True),
}
_tables: dict[str, NDArray[np.float32]] = {}


def view_stored(raw: bytearray | memoryview, dtype: str) -> NDArray[np.generic]:
    """Return raw bytes as an array of stored numbers, one element each (bytes for float8)."""
    return np.frombuffer(raw, dtype=_STORED.get(dtype, "u1"))


def to_float64(stored: NDArray[np.generic], dtype: str) -> NDArray[np.float64]:
    """Return the values of stored numbers as a new C-contiguous float64 array of the same shape."""
    with np.errstate(invalid="ignore"):  # a signalling NaN is found by the caller, not told by numpy
        return np.ascontiguousarray(_to_float(stored, dtype), dtype=np.float64)


def _to_float(stored: NDArray[np.generic], dtype: str) -> NDArray[np.generic]:
    if dtype == "BF16":
        return (stored.astype(np.uint32) << 16).view(np.float32)
    if dtype in _FLOAT8:
        return _float8_table(dtype)[stored]
    return stored


def _float8_table(dtype: str) -> NDArray[np.float32]:
    """Return the value of each of the 256 bytes; OCP OFP8 for E4M3 and E5M2, the FNUZ variants as in ONNX."""
    if dtype in _tables:
        return _tables[dtype]
    exponent_bits, mantissa_bits, bias, is_fnuz = _FLOAT8[dtype]
    code = np.arange(256)
    sign = np.where(code & 0x80, -1.0, 1.0)
    exponent = (code >> mantissa_bits) & (2**exponent_bits - 1)
    fraction = (code & (2**mantissa_bits - 1)) / 2**mantissa_bits
    value = sign * np.where(
        exponent == 0, fraction * 2.0 ** (1 - bias), (1 + fraction) * 2.0 ** (exponent.astype(float) - bias)
    )
    if is_fnuz:
        value[0x80] = np.nan
    elif dtype == "F8_E4M3":
        value[[0x7F, 0xFF]] = np.nan
    else:
        is_special = exponent == 2**exponent_bits - 1
        value[is_special] = np.where(fraction[is_special] == 0, sign[is_special] * np.inf, np.nan)
    _tables[dtype] = value.astype(np.float32)
    return _tables[dtype]


def count_nonfinite(stored: NDArray[np.generic], dtype: str) -> int:
    """Return how many stored numbers are NaN or infinite; whole numbers and packed types have none."""
    if dtype in WHOLE_NUMBER_TYPES or dtype in ("F4", "F6_E2M3", "F6_E3M2"):
        return 0
    if dtype == "F8_E8M0":
        return int(np.count_nonzero(stored == 0xFF))
    if dtype == "BF16":
        return int(np.count_nonzero((stored & 0x7F80) == 0x7F80))
    values = _to_float(stored, dtype) if dtype in FACTOR_TYPES else stored
    return int(values.size - np.count_nonzero(np.isfinite(values)))
