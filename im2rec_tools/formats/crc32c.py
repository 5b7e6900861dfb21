"""CRC-32C (Castagnoli) of joined byte strings, from the CRC of each.

Object stores and TFRecord use the same checksum.
"""

from functools import cache

_POLYNOMIAL = 0x82F63B78  # reflected
_ONE = 1 << 31


def join(first: int, second: int, second_length: int) -> int:
    """Return the CRC of two joined byte strings, from the CRC of each.

    second_length: length of the second in bytes.

    Appending n bytes multiplies a CRC, read as a polynomial over GF(2), by x to the power 8n.
    """
    return _times(first, _shift(second_length)) ^ second


def _times(a: int, b: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if a >> bit & 1:
            product ^= b
        b = b >> 1 ^ (_POLYNOMIAL if b & 1 else 0)
    return product


@cache
def _square(power: int) -> int:
    """Return x to the power 8 * 2**power."""
    if power:
        return _times(_square(power - 1), _square(power - 1))
    byte = _ONE
    for _ in range(8):
        byte = byte >> 1 ^ (_POLYNOMIAL if byte & 1 else 0)
    return byte


def _shift(length: int) -> int:
    shift, power = _ONE, 0
    while length >> power:
        if length >> power & 1:
            shift = _times(shift, _square(power))
        power += 1
    return shift
