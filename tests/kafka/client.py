"""A bare client: sends requests exactly as told and reads what comes back.

Real clients hide timing and errors behind retries. This one speaks through kio, which the
cluster's own wire also reads with, so the tests of the wire compare with real clients besides.
"""

from __future__ import annotations

import datetime
import io
import socket
import struct
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from crc32c import crc32c
from kio.index import load_payload_module, load_response_schema
from kio.serial import entity_reader, entity_writer
from kio.static.constants import EntityType

if TYPE_CHECKING:
    from sojourn.kafka import Cluster

WAIT_S = 10.0


def until(condition: Callable[[], object], what: str = "the condition") -> None:
    """Wait for something that happens beyond a socket; fail if it does not."""
    deadline = time.monotonic() + WAIT_S
    while not condition():
        assert time.monotonic() < deadline, f"{what} did not come true within {WAIT_S} s"
        time.sleep(0.0005)


def duration(ms: int) -> datetime.timedelta:
    return datetime.timedelta(milliseconds=ms)


class Wire:
    """One connection to one broker."""

    def __init__(self, cluster: Cluster, broker_id: int = 1) -> None:
        broker = cluster.broker(broker_id)
        self.sock = socket.create_connection((broker.host, broker.port), timeout=WAIT_S)
        self._correlation = 0
        self._asked: list[tuple[int, int, int]] = []

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def module(self, key: int, version: int) -> Any:
        """The classes of this request."""
        return load_payload_module(key, version, EntityType.request)

    def send(self, request: Any) -> None:
        """Send a request, and do not wait."""
        self.sock.sendall(self.frame(request))
        self._asked.append((request.__api_key__, request.__version__, self._correlation))

    def frame(self, request: Any) -> bytes:
        """The request as it is sent."""
        self._correlation += 1
        key, version = request.__api_key__, request.__version__
        header = request.__header_schema__(
            request_api_key=key,
            request_api_version=version,
            correlation_id=self._correlation,
            client_id="test",
        )
        buffer = io.BytesIO()
        entity_writer(type(header))(buffer, header)
        entity_writer(type(request))(buffer, request)
        body = buffer.getvalue()
        return struct.pack(">i", len(body)) + body

    def receive(self) -> Any:
        """The answer to the first request not yet answered."""
        key, version, correlation = self._asked.pop(0)
        size = struct.unpack(">i", self.read(4))[0]
        body = self.read(size)
        response = load_response_schema(key, version)
        header, at = entity_reader(response.__header_schema__)(body, 0)
        assert header.correlation_id == correlation
        payload, used = entity_reader(response)(body, at)
        assert at + used == size
        return payload

    def ask(self, request: Any) -> Any:
        self.send(request)
        return self.receive()

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            chunk = self.sock.recv(size - len(data))
            if not chunk:
                raise ConnectionError("the broker has closed the connection")
            data += chunk
        return data

    @property
    def is_closed(self) -> bool:
        """Whether the broker closes the connection, without another word."""
        try:
            return self.sock.recv(1) == b""
        except ConnectionError:
            return True

    # The requests that tests make most.

    def produce(
        self,
        topic: str,
        *partitions: int,
        acks: int = -1,
        timeout_ms: int = 30_000,
        records: bytes | None = None,
    ) -> Any:
        m = self.module(0, 9)
        data = batch(b"value") if records is None else records
        return m.ProduceRequest(
            acks=acks,
            timeout=duration(timeout_ms),
            topic_data=(
                m.TopicProduceData(
                    name=topic,
                    partition_data=tuple(
                        m.PartitionProduceData(index=index, records=data)
                        for index in partitions or (0,)
                    ),
                ),
            ),
        )

    def fetch(
        self,
        topic: str,
        offsets: dict[int, int],
        *,
        max_wait_ms: int = 3_000,
        min_bytes: int = 1,
        max_bytes: int = 2**31 - 1,
        partition_max_bytes: int = 2**20,
        leader_epoch: int = -1,
    ) -> Any:
        m = self.module(1, 12)
        return m.FetchRequest(
            max_wait=duration(max_wait_ms),
            min_bytes=min_bytes,
            max_bytes=max_bytes,
            topics=(
                m.FetchTopic(
                    topic=topic,
                    partitions=tuple(
                        m.FetchPartition(
                            partition=index,
                            fetch_offset=offset,
                            partition_max_bytes=partition_max_bytes,
                            current_leader_epoch=leader_epoch,
                        )
                        for index, offset in offsets.items()
                    ),
                ),
            ),
            forgotten_topics_data=(),
        )

    def delete_records(self, topic: str, offset: int, timeout_ms: int = 30_000) -> Any:
        m = self.module(21, 2)
        return m.DeleteRecordsRequest(
            topics=(
                m.DeleteRecordsTopic(
                    name=topic,
                    partitions=(m.DeleteRecordsPartition(partition_index=0, offset=offset),),
                ),
            ),
            timeout=duration(timeout_ms),
        )

    def create_topics(
        self,
        *names: str,
        partitions: int = 1,
        replication_factor: int = 1,
        timeout_ms: int = 30_000,
        validate_only: bool = False,
        assignments: dict[int, tuple[int, ...]] | None = None,
        config: dict[str, str | None] | None = None,
        version: int = 7,
    ) -> Any:
        m = self.module(19, version)
        return m.CreateTopicsRequest(
            topics=tuple(
                m.CreatableTopic(
                    name=name,
                    num_partitions=partitions,
                    replication_factor=replication_factor,
                    assignments=tuple(
                        m.CreatableReplicaAssignment(partition_index=index, broker_ids=brokers)
                        for index, brokers in (assignments or {}).items()
                    ),
                    configs=tuple(
                        m.CreatableTopicConfig(name=key, value=value)
                        for key, value in (config or {}).items()
                    ),
                )
                for name in names
            ),
            timeout=duration(timeout_ms),
            validate_only=validate_only,
        )

    def create_partitions(self, topic: str, count: int, timeout_ms: int = 30_000) -> Any:
        m = self.module(37, 3)
        return m.CreatePartitionsRequest(
            topics=(m.CreatePartitionsTopic(name=topic, count=count, assignments=None),),
            timeout=duration(timeout_ms),
            validate_only=False,
        )


def only(response: Any) -> Any:
    """The one partition's, or topic's, result in a response."""
    for name in ("responses", "topics", "results"):
        if hasattr(response, name):
            (row,) = getattr(response, name)
            for nested in ("partition_responses", "partitions"):
                if hasattr(row, nested):
                    (result,) = getattr(row, nested)
                    return result
            return row
    raise AssertionError(f"no results in {response}")


def batch(
    *values: bytes,
    producer_id: int = -1,
    producer_epoch: int = -1,
    base_sequence: int = -1,
    timestamp_ms: int | None = None,
    step_ms: int = 0,
    attributes: int = 0,
) -> bytes:
    """A record batch, uncompressed, made by hand; of now, unless told otherwise."""
    if timestamp_ms is None:
        timestamp_ms = int(time.time() * 1000)
    records = b"".join(
        _sized(
            b"\0"
            + _varint(number * step_ms)
            + _varint(number)
            + _varint(-1)
            + _sized(value)
            + _varint(0)
        )
        for number, value in enumerate(values)
    )
    count = len(values)
    rest = (
        struct.pack(
            ">hiqqqhii",
            attributes,
            count - 1,
            timestamp_ms,
            timestamp_ms + (count - 1) * step_ms,
            producer_id,
            producer_epoch,
            base_sequence,
            count,
        )
        + records
    )
    return struct.pack(">qiibI", 0, len(rest) + 9, -1, 2, crc32c(rest)) + rest


def _sized(data: bytes) -> bytes:
    return _varint(len(data)) + data


def _varint(value: int) -> bytes:
    value = (value << 1) ^ (value >> 63)
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
