"""A reader of what is committed, as clients read it."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from sojourn.kafka.wire import ErrorCode
from tests.kafka.conformance.batches import described
from tests.kafka.producer_life import PARTITIONS

if TYPE_CHECKING:
    from tests.kafka.transaction_world import World


class Reader:
    """Reads what is committed, from whoever leads, and leaves out what was aborted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.offsets = dict.fromkeys(range(PARTITIONS), 0)
        self.values: dict[int, list[bytes]] = {index: [] for index in range(PARTITIONS)}

    def read(self) -> bool:
        """Read a little of each partition; say whether there was anything."""
        read = [self._read(index) for index in self.offsets]
        return any(read)

    def _read(self, index: int) -> bool:
        offset = self.offsets[index]
        row = {
            "partition": index,
            "fetch_offset": offset,
            "partition_max_bytes": self.world.random.choice([1, 500, 2**20]),
            "current_leader_epoch": -1,
        }
        fields = {
            "max_wait": datetime.timedelta(),
            "min_bytes": 1,
            "max_bytes": 2**20,
            "isolation_level": 1,
            "session_id": 0,
            "session_epoch": -1,
            "topics": [{"topic": "t", "partitions": [row]}],
            "forgotten_topics_data": [],
        }
        answer = self.world.ask(self.world.leader(index), "fetch", 10, fields).fields
        if answer is None:
            return False
        (part,) = answer["responses"][0]["partitions"]
        if part["error_code"] is not ErrorCode.none:
            return False
        aborted = sorted(
            (one["first_offset"], one["producer_id"]) for one in part["aborted_transactions"]
        )
        self._take(index, described(part["records"]), aborted)
        return self.offsets[index] > offset

    def _take(self, index: int, batches: list[Any], aborted: list[tuple[int, int]]) -> None:
        """As clients do: from its first offset on a producer's records are aborted, to its end."""
        skipped: set[int] = set()
        for one in batches:
            if "cut_off_after" in one:
                break
            while aborted and aborted[0][0] <= one["base_offset"]:
                skipped.add(aborted.pop(0)[1])
            producer_id, is_control = one["producer_id"], one["attributes"] & 0x04
            if is_control:
                skipped.discard(producer_id)
            elif producer_id not in skipped:
                self.values[index] += [
                    record.split(" ", 3)[3].encode() for record in one["records"]
                ]
            self.offsets[index] = one["base_offset"] + one["last_delta"] + 1
