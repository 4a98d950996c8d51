"""A produce request with acks=all: it waits until every partition it wrote is replicated.

The broker has appended the records to its own logs. The client gets its answer when the
replicas hold them too, or when its time has run out, whichever comes first.

    python -m examples.produce_acks
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn import DelayedOperation, ManualClock, Purgatory

if TYPE_CHECKING:
    from collections.abc import Callable


class Partition:
    """The leader's view of one partition: what it holds, and what every replica holds."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.led_here = True
        self.log_end = 0  # one past the last record on the leader
        self.high_watermark = 0  # one past the last record that every replica has

    def append(self, records: int) -> int:
        """Write records to the leader's log; return the offset that replicas must reach."""
        self.log_end += records
        return self.log_end


class DelayedProduce(DelayedOperation):
    """Waits for the replicas of every partition that one request wrote to."""

    def __init__(
        self,
        written: dict[Partition, int],
        timeout_ms: int,
        respond: Callable[[dict[str, str]], object],
    ) -> None:
        super().__init__(timeout_ms)
        self._pending = written  # partition -> the offset its replicas must reach
        self._answers: dict[str, str] = {}
        self._respond = respond

    def try_complete(self) -> bool:
        """Settle the partitions that can be; complete when none is left.

        Case A: this broker no longer leads the partition: it is settled, with an error.
        Case B: every replica has reached the offset: it is settled, and well.
        Case C: some replica has not: the partition goes on waiting.
        """
        waiting: dict[Partition, int] = {}
        for partition, offset in self._pending.items():
            if not partition.led_here:
                self._answers[partition.name] = "not leader"  # Case A
            elif partition.high_watermark >= offset:
                self._answers[partition.name] = "ok"  # Case B
            else:
                waiting[partition] = offset  # Case C
        self._pending = waiting
        return not waiting and self.force_complete()

    def on_complete(self) -> None:
        late = dict.fromkeys((partition.name for partition in self._pending), "timed out")
        self._respond(self._answers | late)


def main() -> None:
    clock = ManualClock()
    orders, payments = Partition("orders-0"), Partition("payments-3")

    def produce(name: str, timeout_ms: int) -> None:
        written = {orders: orders.append(10), payments: payments.append(10)}

        def respond(answers: dict[str, str]) -> None:
            print(f"{clock.now_ms:4} ms  {name} answered: {answers}")

        operation = DelayedProduce(written, timeout_ms, respond)
        waits = not purgatory.try_complete_else_watch(operation, list(written))
        print(f"{clock.now_ms:4} ms  {name} submitted, {'waits' if waits else 'done at once'}")

    def replicated(partition: Partition) -> None:
        partition.high_watermark = partition.log_end
        completed = purgatory.check_and_complete(partition)
        print(f"{clock.now_ms:4} ms  {partition.name} replicated, completes {completed}")

    with Purgatory("produce", clock=clock) as purgatory:
        produce("request 1", timeout_ms=300)
        clock.advance(20)
        replicated(orders)
        clock.advance(15)
        replicated(payments)

        produce("request 2", timeout_ms=300)
        clock.advance(40)
        replicated(orders)
        clock.advance(260)  # the replicas of payments-3 never answer

        produce("request 3", timeout_ms=300)
        payments.led_here = False
        purgatory.check_and_complete(payments)
        replicated(orders)

        print(f"{clock.now_ms:4} ms  nothing is left behind: {purgatory}")


if __name__ == "__main__":
    main()
