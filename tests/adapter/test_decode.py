"""Stored numbers: every bit pattern of the small types, against independent arithmetic."""

import math

import numpy as np
import pytest

from lora_spec.adapter.decode import count_nonfinite, to_float64, view_stored


def by_hand(code, exponent_bits, mantissa_bits, bias):
    """Return the value of a small float from its fields, infinities and NaN left aside."""
    sign = -1 if code >> (exponent_bits + mantissa_bits) else 1
    exponent, fraction = (code >> mantissa_bits) % 2**exponent_bits, code % 2**mantissa_bits
    if exponent == 0:
        return sign * math.ldexp(fraction, 1 - bias - mantissa_bits)
    return sign * math.ldexp(2**mantissa_bits + fraction, exponent - bias - mantissa_bits)


@pytest.mark.parametrize(
    ("dtype", "fields", "nonfinite"),
    [
        ("F8_E5M2", (5, 2, 15), {c for c in range(256) if c & 0x7C == 0x7C}),
        ("F8_E4M3", (4, 3, 7), {0x7F, 0xFF}),
        ("F8_E5M2FNUZ", (5, 2, 16), {0x80}),
        ("F8_E4M3FNUZ", (4, 3, 8), {0x80}),
    ],
)
def test_every_byte_of_a_float8_type_has_its_value(dtype, fields, nonfinite):
    stored = view_stored(bytearray(range(256)), dtype)
    values = to_float64(stored, dtype)
    for code, value in enumerate(values):
        if code in nonfinite:
            assert not np.isfinite(value)
        else:
            assert value == by_hand(code, *fields)
    assert count_nonfinite(stored, dtype) == len(nonfinite)


def test_every_bfloat16_is_the_float32_with_its_upper_half():
    codes = np.arange(2**16, dtype="<u2")
    stored = view_stored(bytearray(codes.tobytes()), "BF16")
    wanted = np.zeros((2**16, 2), "<u2")
    wanted[:, 1] = codes
    with np.errstate(invalid="ignore"):  # signalling NaN among them
        values = wanted.view("<f4")[:, 0].astype(float)
    np.testing.assert_array_equal(to_float64(stored, "BF16"), values)
    assert count_nonfinite(stored, "BF16") == np.count_nonzero(codes & 0x7F80 == 0x7F80)


def test_float16_subnormals_and_infinities_are_kept():
    stored = view_stored(bytearray(b"\x01\x00\x00\x7c\x01\x7c"), "F16")
    values = to_float64(stored, "F16")
    assert values[0] == 2.0**-24
    assert values[1] == math.inf
    assert math.isnan(values[2])
    assert count_nonfinite(stored, "F16") == 2
