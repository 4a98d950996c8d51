"""One request that scripted faults strike, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.errors import Closed
from sojourn.kafka import wire
from sojourn.kafka.apis.error_answers import Asked
from sojourn.kafka.network.reply import Reply
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.faults.faults import Fault
    from sojourn.kafka.network.connection import Connection

# After such an error brokers close the connection.
_ENDING = ("sasl_handshake", "sasl_authenticate")


class FaultedRequest:
    """What the faults decided when it came, and how far it is. Made with the agenda held."""

    def __init__(
        self,
        broker: Broker,
        connection: Connection,
        request: wire.Request,
        candidates: Sequence[Fault],
    ) -> None:
        self._broker = broker
        self._connection = connection
        self._request = request
        self._asked = Asked(request, broker)
        self.delay_ms = self.answer_delay_ms = 0
        self.is_dropped = self.is_lost = self.hangs = False
        self._whole = ErrorCode.none
        self._errors: dict[int, ErrorCode] = {}  # by the place of what is named
        self._handled: set[int] = set()
        self._is_handled = False
        self._is_struck = False
        for fault in candidates:
            self._meet(fault)

    def _meet(self, fault: Fault) -> None:
        places: Sequence[int] = ()
        if fault.topic is not None:
            places = fault.among(self._asked.named)
            if not places:
                return
        if fault.what == "answer" and not self._asked.can_say(fault.error):
            return
        if not fault.strikes():
            return
        self._is_struck = True
        if fault.what == "delay" and fault.answer:
            self.answer_delay_ms += fault.ms
        elif fault.what == "delay":
            self.delay_ms += fault.ms
        elif fault.what == "drop":
            self.is_dropped = True
        elif fault.what == "lose":
            self.is_lost, self.hangs = True, fault.hang
        elif fault.topic is not None:
            self._put(fault, places)
        elif self._asked.refused(fault.error) is None:
            self._put(fault, range(len(self._asked.named)))
        elif self._whole is ErrorCode.none:
            self._whole, self._is_handled = fault.error, fault.handled

    def _put(self, fault: Fault, places: Sequence[int]) -> None:
        for place in places:
            if place not in self._errors:
                self._errors[place] = fault.error
                if fault.handled:
                    self._handled.add(place)

    def start(self) -> bool:
        """Go on with it, now or when it is time; False if no fault has struck it."""
        if not self._is_struck:
            return False
        if self.delay_ms:
            self.later(self.delay_ms, self._go_on)
        else:
            self._go_on()
        return True

    def later(self, ms: int, step: Callable[[], object]) -> None:
        """Do this after a while, with the agenda held, unless the client has gone by then."""
        cluster = self._broker.cluster

        def run() -> None:
            with cluster.agenda:
                step()

        with cluster.agenda:  # so that the step cannot come before what is to stop it
            try:
                task = cluster.timer.call_later(ms, run)
            except Closed:
                self._connection.close_soon()
            else:
                self._connection.on_hang_up(task.cancel)

    def _go_on(self) -> None:
        reply = FaultedReply(self, self._connection, self._request)
        with self._broker.cluster.agenda:
            payload = self._left()
            if self.is_dropped or not self._broker.is_alive:
                self._connection.close_soon()
            elif payload is None:
                self._answer_unhandled(reply)
            else:
                request = self._request._replace(payload=payload)
                self._broker.handle(self._connection, request, reply)

    def _left(self) -> Any:
        """What the broker has to handle: all, or what has no error yet; None for nothing."""
        if self._whole is not ErrorCode.none and not self._is_handled:
            return None
        if not self._errors:
            return self._request.payload
        named = self._asked.named
        return self._asked.without(
            [named[place] for place in self._errors if place not in self._handled]
        )

    def _answer_unhandled(self, reply: FaultedReply) -> None:
        if getattr(self._request.payload, "acks", None) == 0:
            reply.nothing()
        else:
            reply({})

    @property
    def says_error(self) -> bool:
        return bool(self._errors) or self._whole is not ErrorCode.none

    def changed(self, answer: wire.Fields) -> wire.Fields:
        """The answer with the scripted errors in it."""
        if self._whole is not ErrorCode.none:
            refused = self._asked.refused(self._whole)
            if refused is not None:
                return {**answer, **refused} if self._is_handled else refused
        named = self._asked.named
        return self._asked.merged(answer, [(named[n], code) for n, code in self._errors.items()])

    def ends_connection(self) -> bool:
        return self.says_error and self._request.api.name in _ENDING


class FaultedReply(Reply):
    """Answers with what the faults have left of the answer."""

    __slots__ = ("_faulted",)

    def __init__(
        self, faulted: FaultedRequest, connection: Connection, request: wire.Request
    ) -> None:
        super().__init__(connection, request.api, request.correlation_id)
        self._faulted = faulted

    def __call__(self, fields: wire.Fields) -> None:
        faulted = self._faulted
        if faulted.says_error:
            fields = faulted.changed(fields)
        if faulted.is_lost:
            self._lose()
        elif not self._claim():
            return
        elif faulted.answer_delay_ms:
            faulted.later(faulted.answer_delay_ms, lambda: self._send(fields))
        else:
            self._send(fields)

    def _send(self, fields: wire.Fields, is_last: bool = False) -> None:
        super()._send(fields, is_last or self._faulted.ends_connection())

    def nothing(self) -> None:
        if self._faulted.says_error:
            self.hang_up()  # as brokers do that have no other way to say it
        else:
            super().nothing()

    def _lose(self) -> None:
        if self._faulted.hangs:
            if self._claim():
                self.on_hang_up(lambda: None)  # the connection is looked at until it closes
        else:
            self.hang_up()
