"""One connection of a scenario: fields in, plain values out.

An answer comes as dictionaries, lists, numbers and text, records taken apart.
"""

from __future__ import annotations

import dataclasses
import datetime
import enum
import socket
import uuid
from typing import Any

from sojourn.kafka.wire import API_KEYS
from tests.kafka.conformance.batches import described
from tests.kafka.wire_client import WireClient, decode_response, framed

#: What is noted of a request that the broker answers by closing the connection.
CLOSED = "closed"
_WAIT_S = 60.0
_RAW = (-1, -1)  # stands for the API of a frame that may be anything
# A transaction that has not begun begins at -1, which kio does not read; so 1 stands for it.
_NO_TIME, _FIRST_TIME = (ms.to_bytes(8, "big", signed=True) for ms in (-1, 1))


class Exchange(WireClient):
    """Sends requests and reads answers, in order; connects again when it is closed."""

    def __init__(self, host: str, port: int, client_id: str = "conformance") -> None:
        super().__init__(host, port, client_id, _WAIT_S)
        self._address = (host, port)
        self.sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def send_raw(self, frame: bytes) -> None:
        """Send a frame of any kind; its answer comes as hex."""
        number = len(self._asked).to_bytes(4, "big")
        self._asked.append(_RAW)
        self.sock.sendall(framed(frame[:4] + number + frame[8:]))

    def receive(self) -> Any:
        """The next answer, or CLOSED; then the connection is made anew."""
        try:
            frame = self.receive_frame()
        except ConnectionError:
            self.sock.close()
            self.sock = self._connect(self._address, _WAIT_S)
            return CLOSED
        asked = self._asked[int.from_bytes(frame[:4], "big")]
        if asked == _RAW:
            return {"frame": frame[4:].hex()}
        if asked[0] == API_KEYS["describe_transactions"]:
            frame = frame.replace(_NO_TIME, _FIRST_TIME)
        return plain(decode_response(*asked, frame))


def plain(value: Any) -> Any:
    """An answer of kio's in dictionaries, lists, numbers and text."""
    if dataclasses.is_dataclass(value):
        found = {}
        for field in dataclasses.fields(value):
            one = getattr(value, field.name)
            if field.name == "records" and isinstance(one, bytes):
                found["records"] = described(one)
            else:
                found[field.name] = plain(one)
        return found
    if isinstance(value, tuple):
        return [plain(one) for one in value]
    if isinstance(value, enum.IntEnum):
        return int(value)
    if isinstance(value, datetime.timedelta):
        return round(value / datetime.timedelta(milliseconds=1))
    if isinstance(value, datetime.datetime):
        return round(value.timestamp() * 1000)
    if isinstance(value, bytes):
        return value.hex()
    return str(value) if isinstance(value, uuid.UUID) else value
