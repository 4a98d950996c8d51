"""Faults that a test scripts: which requests they are meant for, and what becomes of those.

    faults.answer("produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, times=3)
    faults.delay("fetch", ms=800, client_id="billing")
    faults.drop("produce")               the connection breaks before the broker has done anything
    faults.lose("produce")               the broker does it; the connection breaks before it says so

A request meets every fault that is meant for it. First come the delays, all of them; then it is
dropped, or handled; errors are put into the answer; last, the answer is late or lost:

    request --delay--> dropped?  --> handled, or not --> errors in the answer --late--> lost?

What the faults do to one request is in faulted_request.py, and where an error stands in an answer
in error_answers.py.
"""

from __future__ import annotations

import difflib
import random
import re
from collections import deque
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.core.millis import checked_count
from sojourn.errors import OutOfRange, WrongType
from sojourn.kafka import wire
from sojourn.kafka.apis.error_answers import PARTITION, TOPIC, Named, can_name, can_say_error
from sojourn.kafka.faults.faulted_request import FaultedRequest
from sojourn.kafka.security.tls import checked_flaw
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.network.connection import Connection

_ENDED_MOST = 1_000
_MS_MOST = 2**31 - 1
_TIMES_MOST = 2**31 - 1


class Fault:
    """One scripted fault. It ends when it has struck `times` requests, or when it is removed.

    As a context manager it is removed at the end.
    """

    def __init__(
        self,
        faults: Faults,
        number: int,
        what: str,
        api: str | None,
        *,
        error: ErrorCode = ErrorCode.none,
        handled: bool = False,
        ms: int = 0,
        answer: bool = False,
        hang: bool = False,
        flaw: str = "",
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int | None = None,
    ) -> None:
        self.id = number
        self.what = what
        self.api = api
        self.error = error
        self.handled = handled
        self.ms = ms
        self.answer = answer
        self.hang = hang
        self.flaw = flaw
        self.topic = topic
        self.partition = partition
        self.client_id = client_id
        self.broker = broker
        self.times = times
        self.probability = probability
        self.seed = seed
        #: How many requests it has struck.
        self.hits = 0
        self.is_active = True
        self._faults = faults
        if seed is None and probability < 1:
            self.seed = random.SystemRandom().randrange(2**31)
        self._random = random.Random(self.seed)

    def remove(self) -> None:
        """End it. What it has delayed already stays delayed."""
        self._faults.remove(self)

    def __enter__(self) -> Fault:
        return self

    def __exit__(self, *_: object) -> None:
        self.remove()

    def may_strike(self, request: wire.Request, broker: Broker) -> bool:
        """Whether it is meant for such requests; which partitions they name is not looked at."""
        return (
            not self.flaw
            and (self.api is None or self.api == request.api.name)
            and (self.client_id is None or self.client_id == request.client_id)
            and (self.broker is None or self.broker == broker.id)
        )

    def among(self, named: Sequence[Named]) -> list[int]:
        """Which of the things that a request names it is meant for, by their place."""
        return [
            number
            for number, one in enumerate(named)
            if (self.topic is None or one.topic == self.topic)
            and (self.partition is None or one.partition == self.partition)
        ]

    def strikes(self) -> bool:
        """Whether it strikes this time; counted if so. With the agenda held."""
        if self.probability < 1 and self._random.random() >= self.probability:
            return False
        self.hits += 1
        if self.hits == self.times:
            self.remove()
        return True

    def as_dict(self) -> dict[str, Any]:
        """What it is and what it has done; what was not asked for is left out."""
        told = {
            "id": self.id,
            "do": self.what,
            "api": self.api,
            "error": self.error.name.upper() if self.error is not ErrorCode.none else None,
            "handled": self.handled or None,
            "ms": self.ms or None,
            "answer": self.answer or None,
            "hang": self.hang or None,
            "flaw": self.flaw or None,
            "topic": self.topic,
            "partition": self.partition,
            "client_id": self.client_id,
            "broker": self.broker,
            "times": self.times,
            "probability": self.probability if self.probability < 1 else None,
            "seed": self.seed,
            "hits": self.hits,
            "active": self.is_active,
        }
        return {name: value for name, value in told.items() if value is not None}

    def __repr__(self) -> str:
        told = self.as_dict()
        more = " ".join(f"{n}={told[n]}" for n in told if n not in ("id", "do", "hits", "active"))
        state = "" if self.is_active else ", ended"
        return f"<Fault {self.id}: {self.what} {more}, {self.hits} hits{state}>"


class Faults:
    """A cluster's faults: script them, list them, end them. From any thread."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._active: list[Fault] = []  # replaced, never changed
        self._ended: deque[Fault] = deque(maxlen=_ENDED_MOST)
        self._count = 0

    @property
    def is_active(self) -> bool:
        return bool(self._active)

    def answer(
        self, api: str, error: ErrorCode | str | int, *, handled: bool = False, **meant_for: Any
    ) -> Fault:
        """Answer with this error, by Kafka's name or number, and do nothing.

        With a `topic`, or a `partition` of it, the rest of the request is handled as ever. With
        `handled` the broker does what was asked and says the error all the same.
        """
        name = api_of(api)
        if name is None or not can_say_error(name):
            raise OutOfRange(f"an answer to {api} has no place for an error; drop or delay it")
        code = error_of(error)
        if code is ErrorCode.none:
            raise OutOfRange("the error must be one, got NONE")
        return self._add("answer", name, error=code, handled=bool(handled), **meant_for)

    def delay(
        self, api: str | None = None, *, ms: int, answer: bool = False, **meant_for: Any
    ) -> Fault:
        """Have the request come so late, on the cluster's clock; with `answer` only its answer."""
        ms = checked_count(ms, "ms", 0, _MS_MOST, "milliseconds on the cluster's clock")
        return self._add("delay", api_of(api), ms=ms, answer=bool(answer), **meant_for)

    def drop(self, api: str | None = None, **meant_for: Any) -> Fault:
        """Close the connection when the request has come; nothing is done."""
        return self._add("drop", api_of(api), **meant_for)

    def lose(self, api: str | None = None, *, hang: bool = False, **meant_for: Any) -> Fault:
        """Do what was asked and close the connection instead of saying so.

        With `hang` the connection stays open, and the client waits until it has waited enough.
        """
        return self._add("lose", api_of(api), hang=bool(hang), **meant_for)

    def certificate(
        self,
        flaw: str,
        *,
        broker: int | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int | None = None,
    ) -> Fault:
        """Show new connections a certificate that is expired, not_yet_valid, untrusted or for the
        wrong_host. Each connection is a hit."""
        if not self._cluster.security.protocol.endswith("SSL"):
            raise OutOfRange(
                "there are no certificates without TLS; make the cluster with security='SSL'"
            )
        return self._add(
            "certificate",
            None,
            flaw=checked_flaw(flaw),
            broker=broker,
            times=times,
            probability=probability,
            seed=seed,
        )

    def flaw(self, broker: Broker) -> str:
        """What is to be wrong with the certificate that this broker shows next, if anything."""
        with self._cluster.agenda:
            for fault in self._active:
                if fault.flaw and fault.broker in (None, broker.id) and fault.strikes():
                    return fault.flaw
        return ""

    def remove(self, fault: Fault) -> None:
        """End the fault, if it has not ended."""
        with self._cluster.agenda:
            if fault.is_active:
                fault.is_active = False
                self._active = [one for one in self._active if one is not fault]
                self._ended.append(fault)

    def clear(self) -> None:
        """End all."""
        for fault in self._active:
            self.remove(fault)

    def __iter__(self) -> Iterator[Fault]:
        """Those that can strike."""
        return iter(self._active)

    def __len__(self) -> int:
        return len(self._active)

    def listed(self) -> list[Fault]:
        """All, in the order they were scripted, up to a thousand that have ended among them."""
        with self._cluster.agenda:
            return sorted([*self._ended, *self._active], key=lambda fault: fault.id)

    def _add(
        self,
        what: str,
        api: str | None,
        *,
        topic: str | None = None,
        partition: int | None = None,
        client_id: str | None = None,
        broker: int | None = None,
        times: int | None = None,
        probability: float = 1.0,
        seed: int | None = None,
        **more: Any,
    ) -> Fault:
        _check_texts(topic=topic, client_id=client_id)
        _check_place(api, topic, partition)
        if broker is not None:
            self._cluster.broker(broker)
        if times is not None:
            times = checked_count(times, "times", 1, _TIMES_MOST, "None strikes without end")
        if isinstance(probability, bool) or not isinstance(probability, int | float):
            raise WrongType(f"probability must be a number, got {probability!r}")
        if not 0 < probability <= 1:
            raise OutOfRange(f"probability must be above 0 and at most 1, got {probability}")
        if seed is not None and (isinstance(seed, bool) or not isinstance(seed, int)):
            raise WrongType(f"seed must be an integer, got {seed!r}")
        with self._cluster.agenda:
            self._count += 1
            fault = Fault(
                self,
                self._count,
                what,
                api,
                topic=topic,
                partition=partition,
                client_id=client_id,
                broker=broker,
                times=times,
                probability=probability,
                seed=seed,
                **more,
            )
            self._active = [*self._active, fault]
        return fault

    def strike(self, broker: Broker, connection: Connection, request: wire.Request) -> bool:
        """Do to the request what is scripted; False if nothing is. On the listener's thread."""
        with self._cluster.agenda:
            candidates = [one for one in self._active if one.may_strike(request, broker)]
            if not candidates:
                return False
            faulted = FaultedRequest(broker, connection, request, candidates)
        return faulted.start()

    def __repr__(self) -> str:
        return f"<Faults: {', '.join(map(repr, self._active)) or 'none'}>"


def api_of(name: str | None) -> str | None:
    """The API of this name, in Kafka's spelling or ours: ListOffsets, list_offsets; None: any."""
    if name is None:
        return None
    if not isinstance(name, str):
        raise WrongType(f"api must be a name such as Produce, got {name!r}")
    found = re.sub(r"(?<=[a-z])(?=[A-Z])|[- ]", "_", name).lower()
    if found not in wire.VERSIONS:
        near = difflib.get_close_matches(found, wire.VERSIONS, 3) or sorted(wire.VERSIONS)
        raise OutOfRange(f"there is no API {name!r} here; there is {', '.join(near)}")
    return found


_OLD_NAMES = {
    "not_leader": ErrorCode.not_leader_or_follower,
    "not_leader_for_partition": ErrorCode.not_leader_or_follower,
}


def error_of(error: ErrorCode | str | int) -> ErrorCode:
    """The error of this name or number."""
    if isinstance(error, ErrorCode):
        return error
    if isinstance(error, int) and not isinstance(error, bool):
        try:
            return ErrorCode(error)
        except ValueError:
            raise OutOfRange(f"Kafka has no error {error}") from None
    if not isinstance(error, str):
        raise WrongType(f"error must be a name or a number of Kafka's, got {error!r}")
    names = {code.name: code for code in ErrorCode} | _OLD_NAMES
    found = names.get(error.lower())
    if found is None:
        near = difflib.get_close_matches(error.lower(), names, 3)
        hint = f"; did you mean {' or '.join(name.upper() for name in near)}?" if near else ""
        raise OutOfRange(f"Kafka has no error {error!r}{hint}")
    return found


def _check_texts(**texts: object) -> None:
    for name, text in texts.items():
        if text is not None and not isinstance(text, str):
            raise WrongType(f"{name} must be a name, got {text!r}")


def _check_place(api: str | None, topic: str | None, partition: int | None) -> None:
    if partition is not None:
        checked_count(partition, "partition", 0, 2**31 - 1, "None means every partition")
        if topic is None:
            raise OutOfRange(f"partition {partition} of which topic? give topic= too")
    if api is None:
        return
    if topic is not None and not can_name(api, TOPIC):
        raise OutOfRange(f"requests of {api} name no topic; leave topic out")
    if partition is not None and not can_name(api, PARTITION):
        raise OutOfRange(f"requests of {api} name topics, not partitions; leave partition out")
