"""A cluster's scripted faults: what each does to the requests that it is meant for.

    faults.answer("produce", "NOT_LEADER_OR_FOLLOWER", topic="orders", partition=0, times=3)
    faults.delay("fetch", ms=800, client_id="billing")
    faults.drop("produce")               the connection is closed before the request is handled
    faults.lose("produce")               it is handled; the connection is closed before the answer

Every fault that is meant for a request applies to it. First come all delays; then it is dropped,
or handled; errors are merged into the answer; last, the answer is late or lost:

    request --delay--> dropped?  --> handled, or not --> errors in the answer --late--> lost?

One request with its faults is in faulted_request.py.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from sojourn.core.millis import checked_count
from sojourn.errors import OutOfRange
from sojourn.kafka.apis.answer_shapes import can_carry_error
from sojourn.kafka.faults.fault import Effect, Fault, Target
from sojourn.kafka.faults.faulted_request import FaultedRequest
from sojourn.kafka.faults.names import api_of, error_of
from sojourn.kafka.security.tls import checked_flaw
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka import wire
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.cluster import Cluster
    from sojourn.kafka.network.connection import Connection

_ENDED_MAX = 1_000
_MS_MAX = 2**31 - 1


class Faults:
    """A cluster's faults: script them, list them, end them. From any thread.

    `target` are the options of each verb that say which requests it is meant for (`Target`).
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._active: list[Fault] = []  # replaced, never changed
        self._ended: deque[Fault] = deque(maxlen=_ENDED_MAX)
        self._count = 0

    @property
    def is_active(self) -> bool:
        return bool(self._active)

    def answer(
        self, api: str, error: ErrorCode | str | int, *, handled: bool = False, **target: Any
    ) -> Fault:
        """Answer with this error, by Kafka's name or number, and do not handle the request.

        With a `topic`, or a `partition` of it, the rest of the request is handled. With `handled`
        the request is handled, and answered with the error all the same.
        """
        name = api_of(api)
        if name is None or not can_carry_error(name):
            raise OutOfRange(f"an answer to {api} has no place for an error; drop or delay it")
        code = error_of(error)
        if code is ErrorCode.none:
            raise OutOfRange("the error must be one, got NONE")
        return self._add(name, Effect(verb="answer", error=code, handled=bool(handled)), **target)

    def delay(
        self, api: str | None = None, *, ms: int, answer: bool = False, **target: Any
    ) -> Fault:
        """Delay the request by `ms` on the cluster's clock; with `answer` only its answer."""
        ms = checked_count(ms, "ms", 0, _MS_MAX, "milliseconds on the cluster's clock")
        return self._add(api_of(api), Effect(verb="delay", ms=ms, answer=bool(answer)), **target)

    def drop(self, api: str | None = None, **target: Any) -> Fault:
        """Close the connection when the request arrives; it is not handled."""
        return self._add(api_of(api), Effect(verb="drop"), **target)

    def lose(self, api: str | None = None, *, hang: bool = False, **target: Any) -> Fault:
        """Handle the request, and close the connection instead of answering.

        With `hang` the connection stays open, and no answer comes.
        """
        return self._add(api_of(api), Effect(verb="lose", hang=bool(hang)), **target)

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
        effect = Effect(verb="certificate", flaw=checked_flaw(flaw))
        return self._add(
            None, effect, broker=broker, times=times, probability=probability, seed=seed
        )

    def _add(self, api: str | None, effect: Effect, **target: Any) -> Fault:
        meant_for = Target(**target)
        meant_for.check(api)
        if meant_for.broker is not None:
            self._cluster.broker(meant_for.broker)
        with self._cluster.agenda:
            self._count += 1
            fault = Fault(self._count, api, effect, meant_for, self.remove)
            self._active = [*self._active, fault]
        return fault

    def remove(self, fault: Fault) -> None:
        """End the fault, if it has not ended."""
        with self._cluster.agenda:
            if fault.is_active:
                fault.is_active = False
                self._active = [one for one in self._active if one is not fault]
                self._ended.append(fault)

    def clear(self) -> None:
        """End all faults."""
        for fault in self._active:
            self.remove(fault)

    def __iter__(self) -> Iterator[Fault]:
        """Those that have not ended."""
        return iter(self._active)

    def __len__(self) -> int:
        return len(self._active)

    def listed(self) -> list[Fault]:
        """All, in the order they were scripted, with up to a thousand that have ended."""
        with self._cluster.agenda:
            return sorted([*self._ended, *self._active], key=lambda fault: fault.id)

    # For brokers.

    def apply(self, broker: Broker, connection: Connection, request: wire.Request) -> bool:
        """Apply the faults meant for this request; False if there are none. On the listener's
        thread."""
        with self._cluster.agenda:
            candidates = [fault for fault in self._active if fault.is_meant_for(request, broker)]
            if not candidates:
                return False
            # Whoever sees the hit, and then moves the clock, is to find the delay begun.
            return FaultedRequest(broker, connection, request, candidates).start()

    def next_flaw(self, broker: Broker) -> str:
        """The flaw of the certificate that this broker shows next; empty for a good one."""
        with self._cluster.agenda:
            for fault in self._active:
                is_meant = fault.effect.flaw and fault.target.broker in (None, broker.id)
                if is_meant and fault.try_hit():
                    return fault.effect.flaw
        return ""

    def __repr__(self) -> str:
        return f"<Faults: {', '.join(map(repr, self._active)) or 'none'}>"
