"""Zigzag varints, and fields that begin with their size: how numbers stand in a record."""

from __future__ import annotations


def encode_varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


def decode_varint(data: bytes | memoryview, at: int) -> tuple[int, int]:
    """The number at this position, and the position after it."""
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at
        shift += 7


def encode_field(data: bytes | None) -> bytes:
    """The bytes after their size; -1 is the size of null."""
    return encode_varint(-1) if data is None else encode_varint(len(data)) + data


def decode_field(data: bytes, at: int) -> tuple[bytes | None, int]:
    """The field at this position, and the position after it."""
    size, at = decode_varint(data, at)
    return (None, at) if size < 0 else (data[at : at + size], at + size)
