"""Compression of a batch's records. Python has gzip, cramjam the other codecs."""

from __future__ import annotations

import zlib

NONE, GZIP, SNAPPY, LZ4, ZSTD = range(5)

#: The codecs of a topic's `compression.type`; any other value leaves the choice to the producer.
CODECS = {"uncompressed": NONE, "gzip": GZIP, "snappy": SNAPPY, "lz4": LZ4, "zstd": ZSTD}

# An lz4 frame of independent blocks of up to 64 KiB, without checksums: what every client reads.
_LZ4_START = bytes.fromhex("04224d18604082")
_LZ4_BLOCK_BYTES = 64 * 1024
_LZ4_STORED = 1 << 31

# Snappy as Java and Python clients write it: this, eight bytes of versions, then blocks with their
# sizes. librdkafka writes one bare block.
_XERIAL = b"\x82SNAPPY\x00"


class CannotDecompress(Exception):
    """The records are broken, or the codec is unknown or not installed."""


def decompress(codec: int, records: bytes) -> bytes:
    """The records of a batch before they were compressed; or CannotDecompress."""
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


def compress(codec: int, records: bytes) -> bytes:
    """The records compressed by this codec; or CannotDecompress if it is not installed."""
    if codec == NONE:
        return records
    if codec == GZIP:
        coder = zlib.compressobj(wbits=31)
        return coder.compress(records) + coder.flush()
    try:
        import cramjam
    except ImportError as error:
        raise CannotDecompress(f"codec {codec} needs cramjam") from error

    if codec == SNAPPY:
        return bytes(cramjam.snappy.compress_raw(records))
    if codec == ZSTD:
        return bytes(cramjam.zstd.compress(records))
    frame = [_LZ4_START]
    for at in range(0, len(records), _LZ4_BLOCK_BYTES):
        plain = records[at : at + _LZ4_BLOCK_BYTES]
        block = bytes(cramjam.lz4.compress_block(plain, store_size=False))
        if len(block) < len(plain):
            frame += [len(block).to_bytes(4, "little"), block]
        else:
            frame += [(len(plain) | _LZ4_STORED).to_bytes(4, "little"), plain]
    return b"".join((*frame, bytes(4)))


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
