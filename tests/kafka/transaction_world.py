"""Transactional producers on a cluster where everything goes wrong, drawn from a seed.

Producers are generators: each yields what it asks and gets the answer, or None if the request or
the answer was lost, or did not come in time. Requests go to the brokers' handlers without sockets,
and time is a ManualClock: the same seed gives the same run.

    producers   write to several partitions and commit a group's offset with it; commit, abort, or
                vanish; another takes their place under the same transactional id, while the old one
                may go on for a while
    faults      brokers stop and start, leaders move, elections are held up, followers pause and
                lag, requests and answers are lost, records come when their sender has given up,
                time jumps beyond what a transaction may take
    readers     read what is committed all the while, each from where it was

Kept besides, by the producers themselves, is what was promised: which transactions are committed,
which are aborted, and of which nobody can know.
"""

from __future__ import annotations

import datetime
import random
from collections import Counter, defaultdict
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, field
from typing import Any

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.wire import ErrorCode
from tests.kafka.conformance.batches import batch, described
from tests.kafka.in_process import Answer, ask, coordinator

BROKERS = 3
PARTITIONS = 3
IDS = 3
TIMEOUT_MS = 60_000
GROUP = "g"

#: What a client asks again after.
_AGAIN = {
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
#: What tells a producer that another has taken its place, or that it took too long.
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


class World:
    """A cluster, its producers and readers, and one random source for all."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.clock = ManualClock()
        self.cluster = Cluster(
            BROKERS,
            clock=self.clock,
            config={"min.insync.replicas": 2, "auto.create.topics.enable": False},
        )
        self.cluster.create_topic("t", PARTITIONS, BROKERS, {"retention.ms": -1})
        self.transactions: list[Written] = []
        self.readers = [Reader(self) for _ in range(2)]
        self.faults: Counter[str] = Counter()
        self._lives: list[tuple[Life, Answer | None, int]] = []
        self._late: list[Ask] = []
        for number in range(IDS):
            self._start(f"x{number}")

    def close(self) -> None:
        self.cluster.close()

    # Time.

    def run(self, faults: int) -> None:
        """Go on until so many faults have happened."""
        while self.faults.total() < faults:
            if self.random.random() < 0.04:
                self._fault()
            elif self.random.random() < 0.1:
                self.random.choice(self.readers).read()
            elif self.random.random() < 0.1:
                self.clock.advance(self.random.choice([1, 10, 500]))
            elif self._late and self.random.random() < 0.1:
                self.ask(*self._late.pop(self.random.randrange(len(self._late))))
            else:
                self._step()

    def heal(self) -> None:
        """End all faults, all producers and all transactions."""
        self._lives.clear()
        cluster = self.cluster
        cluster.resume_elections()
        for broker in cluster.brokers:
            cluster.start_broker(broker.id)
            for index in range(PARTITIONS):
                cluster.resume(broker.id, "t", index)
        self.clock.advance(60_000)
        for number in range(IDS):
            self._finish(self._init(f"x{number}"))
        self.clock.advance(60_000)

    def _finish(self, life: Life) -> None:
        """Have one life come to its end, undisturbed."""
        answer = None
        while True:
            try:
                asked = life.send(answer)
            except StopIteration:
                return
            reply = self.ask(*asked)
            self.clock.advance(1_000)
            answer = reply.fields

    # Producers.

    def _start(self, transactional_id: str) -> None:
        self._lives.append((self._produce(transactional_id), None, 0))

    def _step(self) -> None:
        """Somebody asks, or has its answer."""
        at = self.random.randrange(len(self._lives))
        life, reply, patience = self._lives[at]
        if reply is not None and not reply.is_over and patience > 0:
            self._lives[at] = (life, reply, patience - 1)
            return
        answer = None if reply is None else reply.fields
        if answer is not None and self.random.random() < 0.02:
            self.faults["an answer is lost"] += 1
            answer = None
        try:
            asked = life.send(answer)
        except StopIteration:
            del self._lives[at]
            return
        if self.random.random() < 0.02:
            self.faults["a request is lost"] += 1
            self._lives[at] = (life, Answer(), 0)
            return
        # Only records: an end that comes late ends the next transaction, in Kafka as well, before
        # each transaction has an epoch of its own (KIP-890, its second part).
        if asked[1] == "produce" and self.random.random() < 0.1:
            self.faults["a request comes late"] += 1
            self._late.append(asked)
            self._lives[at] = (life, Answer(), 0)
            return
        self._lives[at] = (life, self.ask(*asked), 5)

    def ask(self, at: Callable[[], int], api: str, version: int, fields: dict[str, Any]) -> Answer:
        return ask(self.cluster, at(), api, version, fields)

    def leader(self, index: int) -> Callable[[], int]:
        return lambda: self.cluster.leader("t", index)

    def coordinator(self, key: str) -> Callable[[], int]:
        return lambda: coordinator(self.cluster, key)

    def _until(
        self, at: Callable[[], int], api: str, version: int, fields: Any, errors: Any, tries: int
    ) -> Generator[Ask, Any, tuple[ErrorCode | None, Any]]:
        """Ask until the answer is not to ask again; None as error: nobody knows."""
        for _ in range(tries):
            answer = yield at, api, version, fields
            if answer is None:
                continue
            found = {code for code in errors(answer) if code is not ErrorCode.none}
            if not found:
                return ErrorCode.none, answer
            if not found <= _AGAIN:
                return next(code for code in found if code not in _AGAIN), answer
        return None, None

    def _init(self, transactional_id: str) -> Generator[Ask, Any, Any]:
        fields = {
            "transactional_id": transactional_id,
            "transaction_timeout": datetime.timedelta(milliseconds=TIMEOUT_MS),
            "producer_id": -1,
            "producer_epoch": -1,
        }
        error, answer = yield from self._until(
            self.coordinator(transactional_id), "init_producer_id", 4, fields, _top, 10_000
        )
        assert error is ErrorCode.none, error
        return answer["producer_id"], answer["producer_epoch"]

    def _produce(self, transactional_id: str) -> Life:
        """One producer, from its start to its end; another comes after it."""
        rng = self.random
        owner = yield from self._init(transactional_id)
        sequences: dict[int, int] = defaultdict(int)
        for _ in range(rng.randint(1, 6)):
            if rng.random() < 0.1:
                self.faults["another takes over"] += 1
                self._start(transactional_id)  # and this one does not know
                takes_over = True
            else:
                takes_over = False
            goes_on = yield from self._transaction(transactional_id, owner, sequences)
            if takes_over:
                return
            if not goes_on:
                break
        self._start(transactional_id)

    def _transaction(
        self, transactional_id: str, owner: tuple[int, int], sequences: dict[int, int]
    ) -> Generator[Ask, Any, bool]:
        """One transaction; says whether the producer can go on."""
        rng = self.random
        written = Written(len(self.transactions), transactional_id)
        self.transactions.append(written)
        is_fine = True
        for _ in range(rng.randint(1, 4)):
            index = rng.randrange(PARTITIONS)
            values = [
                b"%d %s %d" % (written.number, transactional_id.encode(), rng.randrange(10**6))
                for _ in range(rng.randint(1, 3))
            ]
            error = yield from self._write(transactional_id, owner, index, values, sequences)
            if error in _FENCED:
                return False
            if error is not ErrorCode.none:
                is_fine = False
                break
            written.values[index] += values
        if is_fine and rng.random() < 0.5:
            error = yield from self._commit_offset(transactional_id, owner, written)
            if error in _FENCED:
                return False
            is_fine = error is ErrorCode.none
            written.commits_offset = is_fine
        if rng.random() < 0.05:
            self.faults["a producer vanishes"] += 1
            return False
        commit = is_fine and rng.random() < 0.7
        if commit:
            written.outcome = "unknown"
        fields = {**_owner(transactional_id, owner), "committed": commit}
        error, _ = yield from self._until(
            self.coordinator(transactional_id), "end_txn", 3, fields, _top, 50
        )
        if commit and error is ErrorCode.none:
            written.outcome = "committed"
        # Without a partition that was added there is nothing to abort.
        return is_fine and error in (ErrorCode.none, ErrorCode.invalid_txn_state)

    def _write(
        self,
        transactional_id: str,
        owner: tuple[int, int],
        index: int,
        values: list[bytes],
        sequences: dict[int, int],
    ) -> Generator[Ask, Any, ErrorCode | None]:
        topics = [{"name": "t", "partitions": [index]}]
        below = {f"v3_and_below_{k}": v for k, v in _owner(transactional_id, owner).items()}
        error, _ = yield from self._until(
            self.coordinator(transactional_id),
            "add_partitions_to_txn",
            3,
            {**below, "v3_and_below_topics": topics},
            _added,
            30,
        )
        if error is not ErrorCode.none:
            return error
        records = batch(
            *values,
            attributes=0x10,
            producer_id=owner[0],
            producer_epoch=owner[1],
            base_sequence=sequences[index],
        )
        fields = {
            "transactional_id": transactional_id,
            "acks": -1,
            "timeout": datetime.timedelta(milliseconds=2_000),
            "topic_data": [{"name": "t", "partition_data": [{"index": index, "records": records}]}],
        }
        error, _ = yield from self._until(self.leader(index), "produce", 9, fields, _produced, 30)
        if error is ErrorCode.none:
            sequences[index] += len(values)
        return error

    def _commit_offset(
        self, transactional_id: str, owner: tuple[int, int], written: Written
    ) -> Generator[Ask, Any, ErrorCode | None]:
        """Commit the transaction's number as an offset, of a partition for each id."""
        who = _owner(transactional_id, owner)
        error, _ = yield from self._until(
            self.coordinator(transactional_id),
            "add_offsets_to_txn",
            3,
            {**who, "group_id": GROUP},
            _top,
            30,
        )
        if error is not ErrorCode.none:
            return error
        row = {
            "partition_index": _partition_of(transactional_id),
            "committed_offset": written.number,
            "committed_leader_epoch": -1,
            "committed_metadata": "",
        }
        fields = {
            **who,
            "group_id": GROUP,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": "t", "partitions": [row]}],
        }
        error, _ = yield from self._until(
            self.coordinator(GROUP), "txn_offset_commit", 3, fields, _committed, 30
        )
        return error

    def offsets(self) -> dict[str, int]:
        """What each id has committed last."""
        topics = [{"name": "t", "partition_indexes": list(range(IDS))}]
        fields = {"groups": [{"group_id": GROUP, "topics": topics}], "require_stable": True}
        answer = self.ask(self.coordinator(GROUP), "offset_fetch", 8, fields).fields
        rows = answer["groups"][0]["topics"][0]["partitions"]
        assert all(row["error_code"] is ErrorCode.none for row in rows), rows
        return {f"x{row['partition_index']}": row["committed_offset"] for row in rows}

    # Faults.

    def _fault(self) -> None:
        rng, cluster = self.random, self.cluster
        broker, index = rng.randint(1, BROKERS), rng.randrange(PARTITIONS)
        kind = rng.choice(_FAULTS)
        self.faults[kind] += 1
        match kind:
            case "a broker stops":
                cluster.stop_broker(broker)
            case "a broker starts":
                cluster.start_broker(broker)
            case "a follower pauses":
                cluster.pause_follower(broker, "t", index)
            case "a follower resumes":
                cluster.resume(broker, "t", index)
            case "a follower lags":
                cluster.lag(broker, "t", index, rng.choice([1, 50, 5_000]))
            case "an election":
                cluster.elect("t", index)
            case "no elections":
                cluster.pause_elections()
            case "elections":
                cluster.resume_elections()
            case "a leader moves":
                partition = cluster.partition("t", index)
                others = [one for one in sorted(partition.isr) if cluster.broker(one).is_alive]
                if others:
                    cluster.move_leader("t", index, rng.choice(others))
            case "time passes":
                self.clock.advance(rng.choice([1_000, 30_000, TIMEOUT_MS + 1]))

    # What holds.

    def check(self) -> None:
        """Everything that was promised, and nothing else, can be read; call `heal` before."""
        cluster = self.cluster
        assert cluster.purgatories.transaction.watched == 0
        assert cluster.purgatories.transaction_marker.watched == 0
        last = Reader(self)
        for reader in (*self.readers, last):
            while reader.read():
                pass
        for reader in self.readers:
            assert reader.values == last.values, "what was read once is read again, in order"
        places: dict[bytes, list[int]] = defaultdict(list)
        for index, values in last.values.items():
            assert cluster.partition("t", index).end_offset == last.offsets[index], "one hangs"
            for value in values:
                places[value].append(index)
        for written in self.transactions:
            found = {
                index: [value for value in last.values[index] if _number(value) == written.number]
                for index in range(PARTITIONS)
            }
            found = {index: values for index, values in found.items() if values}
            if written.outcome == "committed" or (written.outcome == "unknown" and found):
                assert found == dict(written.values), written
                written.outcome = "committed"
            else:
                assert not found, written
        assert all(len(indices) == 1 for indices in places.values())
        for index, values in last.values.items():
            self._check_order(index, values)
        self._check_offsets()

    def _check_order(self, index: int, values: list[bytes]) -> None:
        by_id: dict[bytes, list[int]] = defaultdict(list)
        for value in values:
            by_id[value.split()[1]].append(_number(value))
        for numbers in by_id.values():
            runs = [n for at, n in enumerate(numbers) if not at or numbers[at - 1] != n]
            assert len(runs) == len(set(runs)), f"transactions of one id mix in {index}: {runs}"

    def _check_offsets(self) -> None:
        committed = self.offsets()
        for transactional_id, offset in committed.items():
            numbers = [
                one.number
                for one in self.transactions
                if one.transactional_id == transactional_id
                and one.commits_offset
                and one.outcome == "committed"
            ]
            unknown = [
                one.number
                for one in self.transactions
                if one.transactional_id == transactional_id
                and one.commits_offset
                and one.outcome == "unknown"
                and not one.values
            ]
            newest = max(numbers, default=-1)
            assert offset == newest or (offset > newest and offset in unknown), (offset, numbers)


_FAULTS = (
    *("a broker stops",) * 2,
    *("a broker starts",) * 4,
    *("a follower pauses",) * 2,
    *("a follower resumes",) * 3,
    "a follower lags",
    "an election",
    "no elections",
    *("elections",) * 2,
    *("a leader moves",) * 3,
    "time passes",
)


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


def _number(value: bytes) -> int:
    return int(value.split()[0])


def _partition_of(transactional_id: str) -> int:
    return int(transactional_id[1:])


def _owner(transactional_id: str, owner: tuple[int, int]) -> dict[str, Any]:
    return {
        "transactional_id": transactional_id,
        "producer_id": owner[0],
        "producer_epoch": owner[1],
    }


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
