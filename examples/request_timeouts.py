"""Request timeouts: every request gets a timer, and nearly every timer is cancelled.

python -m examples.request_timeouts
"""

from __future__ import annotations

import threading

from sojourn import Timer, TimerTask


class Client:
    """Sends requests; an answer cancels the request's timeout."""

    def __init__(self, timer: Timer, timeout_ms: int, expected: int) -> None:
        self._timer = timer
        self._timeout_ms = timeout_ms
        self._expected = expected
        self._timeouts: dict[int, TimerTask] = {}
        self.answered: list[int] = []
        self.timed_out: list[int] = []
        self.all_settled = threading.Event()

    def send(self, request: int) -> None:
        task = self._timer.call_later(self._timeout_ms, self._time_out, request)
        self._timeouts[request] = task

    def answer(self, request: int) -> None:
        # cancel() says whether the timeout was still waiting: exactly one of the two wins.
        if self._timeouts[request].cancel():
            self._settle(self.answered, request)

    def _time_out(self, request: int) -> None:
        self._settle(self.timed_out, request)

    def _settle(self, outcome: list[int], request: int) -> None:
        outcome.append(request)
        if len(self.answered) + len(self.timed_out) == self._expected:
            self.all_settled.set()


def main() -> None:
    with Timer(name="requests") as timer:
        client = Client(timer, timeout_ms=300, expected=1000)
        for request in range(1000):
            client.send(request)
        print(f"sent 1000 requests, {len(timer)} timeouts wait")

        for request in range(1000):
            if request % 100:  # every hundredth answer is lost
                client.answer(request)
        print(f"{len(client.answered)} answers came, {len(timer)} timeouts wait")

        client.all_settled.wait(timeout=5)
        print(f"timed out, in order: {client.timed_out}")


if __name__ == "__main__":
    main()
