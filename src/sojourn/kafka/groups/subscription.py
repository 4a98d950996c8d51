"""The topics in a consumer's metadata: the first fields of the consumer protocol.

int16 version | int32 count | count × (int16 length, UTF-8) | the rest is not read
"""

from __future__ import annotations

import struct


def subscribed_topics(metadata: bytes) -> set[str] | None:
    """The topics; None if the bytes are not a consumer's metadata."""
    try:
        version, count = struct.unpack_from(">hi", metadata)
        if version < 0 or not 0 <= count <= len(metadata):
            return None
        topics = set()
        at = 6
        for _ in range(count):
            (length,) = struct.unpack_from(">h", metadata, at)
            name = metadata[at + 2 : at + 2 + length]
            if length < 0 or len(name) != length:
                return None
            topics.add(name.decode("utf-8"))
            at += 2 + length
        return topics
    except (struct.error, UnicodeDecodeError):
        return None
