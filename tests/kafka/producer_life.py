"""The life of a transactional producer: one generator, from its start to its end.

It yields what it asks, and gets the answer, or None if the request or the answer was lost, or did
not come in time. It keeps what it was promised: which of its transactions are committed, which are
aborted, and of which nobody can know.
"""

from __future__ import annotations

import datetime
from collections import defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sojourn.kafka.wire import ErrorCode
from tests.kafka.conformance.batches import batch

if TYPE_CHECKING:
    from tests.kafka.transaction_world import World

PARTITIONS = 3  # of the topic t
TIMEOUT_MS = 60_000
GROUP = "g"

#: A client asks again after these.
_RETRIABLE = {
    ErrorCode.concurrent_transactions,
    ErrorCode.coordinator_not_available,
    ErrorCode.not_coordinator,
    ErrorCode.not_enough_replicas,
    ErrorCode.not_enough_replicas_after_append,
    ErrorCode.not_leader_or_follower,
    ErrorCode.request_timed_out,
    ErrorCode.leader_not_available,
    ErrorCode.offset_not_available,
    ErrorCode.unstable_offset_commit,
}
#: Another producer has taken this one's place, or its transaction took too long.
_FENCED = {
    ErrorCode.producer_fenced,
    ErrorCode.invalid_producer_epoch,
    ErrorCode.invalid_producer_id_mapping,
}

Ask = tuple[Callable[[], int], str, int, dict[str, Any]]  # at which broker, api, version, fields
Life = Generator[Ask, Any, None]


@dataclass
class Written:
    """One transaction, as its producer knows it."""

    number: int
    transactional_id: str
    values: dict[int, list[bytes]] = field(default_factory=lambda: defaultdict(list))
    outcome: str = "aborted"  # until its producer asks for a commit
    commits_offset: bool = False


class ProducerLife:
    """One producer of a transactional id, which is the letter x and a number."""

    def __init__(self, world: World, transactional_id: str) -> None:
        self._world = world
        self._id = transactional_id
        self._coordinator = world.coordinator(transactional_id)
        self._owner: dict[str, Any] = {}
        self._sequences: dict[int, int] = defaultdict(int)

    def live(self) -> Life:
        """Some transactions; another producer comes after this one."""
        rng = self._world.random
        yield from self.start()
        for _ in range(rng.randint(1, 6)):
            takes_over = rng.random() < 0.1
            if takes_over:
                self._world.faults["another takes over"] += 1
                self._world.start(self._id)  # and this one does not know
            goes_on = yield from self._transaction()
            if takes_over:
                return
            if not goes_on:
                break
        self._world.start(self._id)

    def start(self) -> Life:
        """Ask for a producer id, which ends what an earlier producer has left open."""
        fields = {
            "transactional_id": self._id,
            "transaction_timeout": datetime.timedelta(milliseconds=TIMEOUT_MS),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        error, answer = yield from _until(
            self._coordinator, "init_producer_id", 4, fields, _top, 10_000
        )
        assert error is ErrorCode.none, error
        self._owner = {
            "transactional_id": self._id,
            "producer_id": answer["producer_id"],
            "producer_epoch": answer["producer_epoch"],
        }

    def _transaction(self) -> Generator[Ask, Any, bool]:
        """One transaction; says whether the producer can go on."""
        rng = self._world.random
        written = Written(len(self._world.transactions), self._id)
        self._world.transactions.append(written)
        is_fine = True
        for _ in range(rng.randint(1, 4)):
            index = rng.randrange(PARTITIONS)
            values = [
                b"%d %s %d" % (written.number, self._id.encode(), rng.randrange(10**6))
                for _ in range(rng.randint(1, 3))
            ]
            error = yield from self._write(index, values)
            if error in _FENCED:
                return False
            if error is not ErrorCode.none:
                is_fine = False
                break
            written.values[index] += values
        if is_fine and rng.random() < 0.5:
            error = yield from self._commit_offset(written.number)
            if error in _FENCED:
                return False
            is_fine = error is ErrorCode.none
            written.commits_offset = is_fine
        if rng.random() < 0.05:
            self._world.faults["a producer vanishes"] += 1
            return False
        commit = is_fine and rng.random() < 0.7
        if commit:
            written.outcome = "unknown"
        fields = {**self._owner, "committed": commit}
        error, _ = yield from _until(self._coordinator, "end_txn", 3, fields, _top, 50)
        if commit and error is ErrorCode.none:
            written.outcome = "committed"
        # Without a partition that was added there is nothing to abort.
        return is_fine and error in (ErrorCode.none, ErrorCode.invalid_txn_state)

    def _write(self, index: int, values: list[bytes]) -> Generator[Ask, Any, ErrorCode | None]:
        fields: dict[str, Any] = {f"v3_and_below_{k}": v for k, v in self._owner.items()}
        fields["v3_and_below_topics"] = [{"name": "t", "partitions": [index]}]
        error, _ = yield from _until(
            self._coordinator, "add_partitions_to_txn", 3, fields, _added, 30
        )
        if error is not ErrorCode.none:
            return error
        records = batch(
            *values,
            attributes=0x10,
            producer_id=self._owner["producer_id"],
            producer_epoch=self._owner["producer_epoch"],
            base_sequence=self._sequences[index],
        )
        fields = {
            "transactional_id": self._id,
            "acks": -1,
            "timeout": datetime.timedelta(milliseconds=2_000),
            "topic_data": [{"name": "t", "partition_data": [{"index": index, "records": records}]}],
        }
        leader = self._world.leader(index)
        error, _ = yield from _until(leader, "produce", 9, fields, _produced, 30)
        if error is ErrorCode.none:
            self._sequences[index] += len(values)
        return error

    def _commit_offset(self, offset: int) -> Generator[Ask, Any, ErrorCode | None]:
        """Commit an offset of the partition that has the number of this id."""
        fields = {**self._owner, "group_id": GROUP}
        error, _ = yield from _until(self._coordinator, "add_offsets_to_txn", 3, fields, _top, 30)
        if error is not ErrorCode.none:
            return error
        row = {
            "partition_index": int(self._id[1:]),
            "committed_offset": offset,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        fields = {
            **fields,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": [row]}],
        }
        group_coordinator = self._world.coordinator(GROUP)
        error, _ = yield from _until(
            group_coordinator, "txn_offset_commit", 3, fields, _committed, 30
        )
        return error


def _until(
    at: Callable[[], int], api: str, version: int, fields: Any, errors_of: Any, tries: int
) -> Generator[Ask, Any, tuple[ErrorCode | None, Any]]:
    """Ask until the answer is not to ask again; None as error: nobody knows."""
    for _ in range(tries):
        answer = yield at, api, version, fields
        if answer is None:
            continue
        errors = {code for code in errors_of(answer) if code is not ErrorCode.none}
        if not errors:
            return ErrorCode.none, answer
        if not errors <= _RETRIABLE:
            return next(code for code in errors if code not in _RETRIABLE), answer
    return None, None


# The errors in an answer.


def _top(answer: Any) -> Iterator[ErrorCode]:
    yield answer.get("error_code", ErrorCode.none)


def _added(answer: Any) -> Iterator[ErrorCode]:
    for topic in answer["results_by_topic_v3_and_below"]:
        for row in topic["results_by_partition"]:
            yield row["partition_error_code"]


def _produced(answer: Any) -> Iterator[ErrorCode]:
    for topic in answer["responses"]:
        for row in topic["partition_responses"]:
            yield row["error_code"]


def _committed(answer: Any) -> Iterator[ErrorCode]:
    for topic in answer["topics"]:
        for row in topic["partitions"]:
            yield row["error_code"]
