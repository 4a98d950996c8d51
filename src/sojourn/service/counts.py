"""Counts: what the service has done, for /metrics."""

from __future__ import annotations

from typing import TYPE_CHECKING

from sojourn.core.histogram import Histogram
from sojourn.metrics import Collector, ServiceMetrics

if TYPE_CHECKING:
    from sojourn.service.service import Service

_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "DELETE"})


class Counts:
    """Requests by route and status, and how long they took. The loop's thread."""

    name = "service"

    def __init__(self, service: Service) -> None:
        self._service = service
        self._requests: dict[tuple[str, str, int], int] = {}
        self._elapsed: dict[str, Histogram] = {}
        self._collector: Collector | None = None

    def on_request(
        self, method: str, route: str, status: int, elapsed_s: float, has_waited: bool
    ) -> None:
        """A request was answered; if it waited as it had asked to, its time is not recorded."""
        key = (method if method in _METHODS else "other", route, status)
        self._requests[key] = self._requests.get(key, 0) + 1
        if not has_waited:
            histogram = self._elapsed.get(route)
            if histogram is None:
                histogram = self._elapsed[route] = Histogram()
            histogram.record(int(elapsed_s * 1_000_000))

    def start(self) -> None:
        """Count what the purgatory does, too."""
        self._collector = Collector(self)
        self._collector.add(self._service.purgatory, "waits")

    def close(self) -> None:
        """Count no more."""
        if self._collector is not None:
            self._collector.remove(self._service.purgatory)

    def text(self) -> bytes:
        """Everything, in Prometheus' text format."""
        return b"" if self._collector is None else self._collector.text()

    def metrics(self) -> ServiceMetrics:
        """The numbers of this moment."""
        service = self._service
        webhooks = {name: service.deliveries.state(name) for name in service.deliveries.webhooks}
        return ServiceMetrics(
            requests=[
                ({"method": method, "route": route, "status": str(status)}, count)
                for (method, route, status), count in self._requests.items()
            ],
            request=[
                ({"route": route}, histogram.snapshot())
                for route, histogram in self._elapsed.items()
            ],
            connections=service.connections(),
            waiters=len(service.polls),
            streams=service.streams,
            webhook_outcomes=[
                ({"subscription": name}, state["delivered"])
                for name, state in webhooks.items()
                if state
            ],
            webhook_failures=[
                ({"subscription": name}, state["failures"])
                for name, state in webhooks.items()
                if state
            ],
        )
