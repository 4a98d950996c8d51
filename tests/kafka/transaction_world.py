"""Transactional producers on a cluster where everything goes wrong, drawn from a seed.

Requests go to the brokers' handlers without sockets, and time is a ManualClock: the same seed gives
the same run.

    producers   write to several partitions and commit a group's offset with it; commit, abort, or
                vanish; another takes their place under the same transactional id, while the old one
                may go on for a while
    faults      brokers stop and start, leaders move, elections are held up, followers pause and
                lag, requests and answers are lost, records come when their sender has given up,
                time jumps beyond what a transaction may take
    readers     read what is committed all the while, each from where it was

In the end all that the producers were promised can be read, and nothing else.
"""

from __future__ import annotations

import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

from sojourn import ManualClock
from sojourn.kafka import Cluster
from sojourn.kafka.wire import ErrorCode
from tests.kafka.committed_reader import Reader
from tests.kafka.in_process import Answer, ask, coordinator
from tests.kafka.producer_life import (
    GROUP,
    PARTITIONS,
    TIMEOUT_MS,
    Ask,
    Life,
    ProducerLife,
    Written,
)

BROKERS = 3
IDS = 3


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
            self.start(f"x{number}")

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
            self._finish(ProducerLife(self, f"x{number}").start())
        self.clock.advance(60_000)

    def _finish(self, life: Life) -> None:
        """Let a life run to its end, without faults."""
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

    def start(self, transactional_id: str) -> None:
        """Start another producer of this id."""
        self._lives.append((ProducerLife(self, transactional_id).live(), None, 0))

    def _step(self) -> None:
        """A producer asks, or gets its answer."""
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
        read: dict[int, dict[int, list[bytes]]] = defaultdict(lambda: defaultdict(list))
        for index, values in last.values.items():
            assert cluster.partition("t", index).end_offset == last.offsets[index], "one hangs"
            for value in values:
                places[value].append(index)
                read[_number(value)][index].append(value)
        for written in self.transactions:
            its_values = read[written.number]
            if written.outcome == "committed" or (written.outcome == "unknown" and its_values):
                assert its_values == written.values, written
                written.outcome = "committed"
            else:
                assert not its_values, written
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
            with_offset = [
                one
                for one in self.transactions
                if one.transactional_id == transactional_id and one.commits_offset
            ]
            numbers = [one.number for one in with_offset if one.outcome == "committed"]
            unknown = [
                one.number for one in with_offset if one.outcome == "unknown" and not one.values
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


def _number(value: bytes) -> int:
    return int(value.split()[0])
