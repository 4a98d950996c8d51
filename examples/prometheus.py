"""A purgatory for Prometheus to scrape: orders wait half a second for their payment.

    pip install sojourn[metrics]
    python -m examples.prometheus --seconds 60
    curl http://127.0.0.1:8000/metrics

In prometheus.yml:

    scrape_configs:
      - job_name: sojourn
        scrape_interval: 5s
        static_configs:
          - targets: ["127.0.0.1:8000"]
"""

from __future__ import annotations

import argparse
import random
import threading
from time import monotonic

from prometheus_client import start_http_server

from sojourn import DelayedOperation, Purgatory, Timer, metrics

ORDERS_PER_SECOND = 200
TIMEOUT_MS = 500


class Order(DelayedOperation):
    """Completes when it is paid."""

    def __init__(self) -> None:
        super().__init__(TIMEOUT_MS)
        self.paid = False

    def try_complete(self) -> bool:
        return self.paid and self.force_complete()


class Shop:
    """Takes orders; a payment takes a log-normal time, and one in twenty never comes."""

    def __init__(self, orders: Purgatory, payments: Timer, seed: int = 1) -> None:
        self.taken = 0
        self._orders = orders
        self._payments = payments
        self._random = random.Random(seed)

    def take_order(self) -> None:
        self.taken += 1
        order = Order()
        key = f"order-{self.taken}"
        self._orders.try_complete_else_watch(order, [key])
        if self._random.random() > 0.05:
            delay_ms = int(80 * self._random.lognormvariate(0, 0.8))
            self._payments.call_later(delay_ms, self._pay, order, key)

    def _pay(self, order: Order, key: str) -> None:
        order.paid = True
        self._orders.check_and_complete(key)


def run(seconds: float, port: int) -> None:
    pause = threading.Event()  # never set: waiting on it is a pause
    with Purgatory("orders") as orders, Timer(name="payments") as payments:
        metrics.Collector(orders, payments).register()
        server, thread = start_http_server(port, addr="127.0.0.1")
        address = f"http://127.0.0.1:{server.server_port}/metrics"
        print(f"for {seconds:g} s: {address}", flush=True)
        shop = Shop(orders, payments)
        began = monotonic()
        while (elapsed_s := monotonic() - began) < seconds:
            while shop.taken < elapsed_s * ORDERS_PER_SECOND:
                shop.take_order()
            pause.wait(0.02)
        payments.close()
        dropped = orders.close()
        server.shutdown()
        server.server_close()
        thread.join()
    ended = orders.metrics()
    print(
        f"orders {shop.taken:,} = paid {ended.completed:,} + expired {ended.expired:,} "
        f"+ waiting at the end {dropped:,}"
    )


def main() -> None:
    options = argparse.ArgumentParser(prog="python -m examples.prometheus", description=__doc__)
    options.formatter_class = argparse.RawDescriptionHelpFormatter
    options.add_argument("--seconds", type=float, default=10.0, help="how long (default 10)")
    options.add_argument("--port", type=int, default=8000, help="0 takes a free one (default 8000)")
    chosen = options.parse_args()
    if not chosen.seconds > 0:
        options.error(f"--seconds must be above 0, got {chosen.seconds:g}")
    run(chosen.seconds, chosen.port)


if __name__ == "__main__":
    main()
