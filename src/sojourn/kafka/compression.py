"""Compression, undone: only to find a record by its time, since brokers pass on what they get.

Python undoes gzip by itself, cramjam the other codecs.
"""

from __future__ import annotations

import zlib

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

# Java's way of writing snappy, and Python's: this, eight bytes of versions, then blocks with
# their sizes. librdkafka writes one bare block.
_XERIAL = b"\x82SNAPPY\x00"


class CannotDecompress(Exception):
    """The records are broken, or nobody here knows the codec."""


def decompressed(codec: int, records: bytes) -> bytes:
    """The records of a batch as they were; or CannotDecompress."""
    if codec == NONE:
        return records
    try:
        if codec == GZIP:
            return zlib.decompress(records, 31)
        import cramjam

        if codec == SNAPPY:
            return b"".join(bytes(cramjam.snappy.decompress_raw(b)) for b in _blocks(records))
        if codec == LZ4:
            return bytes(cramjam.lz4.decompress(records))
        if codec == ZSTD:
            return bytes(cramjam.zstd.decompress(records))
    except ImportError as error:
        raise CannotDecompress(f"codec {codec} needs cramjam") from error
    except Exception as error:  # each library has its own
        raise CannotDecompress(f"codec {codec}: {error}") from error
    raise CannotDecompress(f"there is no codec {codec}")


def _blocks(records: bytes) -> list[bytes]:
    if not records.startswith(_XERIAL):
        return [records]
    blocks = []
    at = len(_XERIAL) + 8
    while at < len(records):
        size = int.from_bytes(records[at : at + 4], "big")
        blocks.append(records[at + 4 : at + 4 + size])
        at += 4 + size
    return blocks
