"""One request that scripted faults apply to, from its arrival to its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from sojourn.errors import Closed
from sojourn.kafka import wire
from sojourn.kafka.apis.error_answers import ErrorAnswers
from sojourn.kafka.reply import Reply
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Broker
    from sojourn.kafka.faults.fault import Effect, Fault
    from sojourn.kafka.network.connection import Connection

# After an error of these APIs brokers close the connection.
_CLOSING = ("sasl_handshake", "sasl_authenticate")


class FaultedRequest:
    """What the faults do to the request. Made with the agenda held."""

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
        self._answers = ErrorAnswers(request, broker)
        self.delay_ms = self.answer_delay_ms = 0
        self.is_dropped = self.is_lost = self.hangs = False
        self._whole_error = ErrorCode.none
        self._is_handled = False  # also with an error for the whole
        self._errors: dict[int, ErrorCode] = {}  # by the index of the request's item
        self._handled_items: set[int] = set()
        self._is_hit = False
        for fault in candidates:
            self._apply(fault)

    def _apply(self, fault: Fault) -> None:
        effect = fault.effect
        has_topic = fault.target.topic is not None
        items = fault.matching(self._answers.items) if has_topic else []
        if has_topic and not items:
            return
        if effect.verb == "answer" and not self._answers.can_carry(effect.error):
            return
        if not fault.try_hit():
            return
        self._is_hit = True
        if effect.verb == "delay" and effect.answer:
            self.answer_delay_ms += effect.ms
        elif effect.verb == "delay":
            self.delay_ms += effect.ms
        elif effect.verb == "drop":
            self.is_dropped = True
        elif effect.verb == "lose":
            self.is_lost, self.hangs = True, effect.hang
        elif has_topic:
            self._set_errors(effect, items)
        elif self._answers.whole(effect.error) is None:
            self._set_errors(effect, range(len(self._answers.items)))
        elif self._whole_error is ErrorCode.none:
            self._whole_error, self._is_handled = effect.error, effect.handled

    def _set_errors(self, effect: Effect, items: Sequence[int]) -> None:
        for item in items:
            if item not in self._errors:
                self._errors[item] = effect.error
                if effect.handled:
                    self._handled_items.add(item)

    def start(self) -> bool:
        """Continue it, now or after its delay; False if no fault applies to it. With the agenda
        held."""
        if not self._is_hit:
            return False
        if self.delay_ms:
            self.call_later(self.delay_ms, self._continue)
        else:
            self._continue()
        return True

    def call_later(self, ms: int, step: Callable[[], object]) -> None:
        """Do this after `ms`, with the agenda held, unless the client disconnects before."""
        cluster = self._broker.cluster

        def run() -> None:
            with cluster.agenda:
                step()

        with cluster.agenda:  # so that the step cannot run before it can be cancelled
            try:
                task = cluster.timer.call_later(ms, run)
            except Closed:
                self._connection.close_soon()
            else:
                self._connection.on_hang_up(task.cancel)

    def _continue(self) -> None:
        reply = FaultedReply(self, self._connection, self._request)
        with self._broker.cluster.agenda:
            payload = self._payload_to_handle()
            if self.is_dropped or not self._broker.is_alive:
                self._connection.close_soon()
            elif payload is None:
                self._answer_unhandled(reply)
            else:
                request = self._request._replace(payload=payload)
                self._broker.handle(self._connection, request, reply)

    def _payload_to_handle(self) -> Any:
        """The request without the items that have an error; None if the broker handles nothing."""
        if self._whole_error is not ErrorCode.none and not self._is_handled:
            return None
        if not self._errors:
            return self._request.payload
        items = self._answers.items
        return self._answers.without(
            [items[item] for item in self._errors if item not in self._handled_items]
        )

    def _answer_unhandled(self, reply: FaultedReply) -> None:
        if getattr(self._request.payload, "acks", None) == 0:
            reply.send_nothing()
        else:
            reply({})

    @property
    def has_error(self) -> bool:
        return bool(self._errors) or self._whole_error is not ErrorCode.none

    def merge_errors(self, answer: wire.Fields) -> wire.Fields:
        """The answer with the scripted errors in it."""
        if self._whole_error is not ErrorCode.none:
            refused = self._answers.whole(self._whole_error)
            if refused is not None:
                return {**answer, **refused} if self._is_handled else refused
        items = self._answers.items
        return self._answers.merge(answer, [(items[n], code) for n, code in self._errors.items()])

    def closes_connection(self) -> bool:
        return self.has_error and self._request.api.name in _CLOSING


class FaultedReply(Reply):
    """Sends the answer as the faults have changed it."""

    __slots__ = ("_faulted",)

    def __init__(
        self, faulted: FaultedRequest, connection: Connection, request: wire.Request
    ) -> None:
        super().__init__(connection, request.api, request.correlation_id)
        self._faulted = faulted

    def __call__(self, fields: wire.Fields) -> None:
        faulted = self._faulted
        if faulted.has_error:
            fields = faulted.merge_errors(fields)
        if faulted.is_lost:
            self._lose()
        elif not self._claim():
            return
        elif faulted.answer_delay_ms:
            faulted.call_later(faulted.answer_delay_ms, lambda: self._send(fields))
        else:
            self._send(fields)

    def _send(self, fields: wire.Fields, is_last: bool = False) -> None:
        super()._send(fields, is_last or self._faulted.closes_connection())

    def send_nothing(self) -> None:
        if self._faulted.has_error:
            self.hang_up()  # as brokers do for errors of requests without an answer
        else:
            super().send_nothing()

    def _lose(self) -> None:
        if self._faulted.hangs:
            if self._claim():
                self.on_hang_up(lambda: None)  # so that a disconnect is noticed
        else:
            self.hang_up()
