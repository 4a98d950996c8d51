"""The shop: orders for payment and stock, parcels for scans, refunds for the bank.

Four classes of operations, each with a timeout, of which some fit and some do not:

    class      waits for                                     needed   timeout   which is
    order      its payment, and its unit of stock            all      30 min    a little tight
    shipment   its hub's manifest, the van's, the door's     2 of 3   48 h      far too long
    express    the courier's position or the door's scan     any      20 min    much too tight
    refund     the bank                                      all      24 h      far too long

Payments and scans have a key of their own. Stock and manifests are what makes hot keys: an order
takes the next unit of its product, a parcel the next place on its hub's manifest, and deliveries
and scanners raise the key's offset many units at a time, mostly before anybody needs them.

The days have a shape: quiet nights, a hump at noon, a higher one in the evening. One evening has a
flash sale, one product above all; at noon of the last day the payment provider is down for forty
minutes, and everything it owes comes at once afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Int64s = npt.NDArray[np.int64]

SECOND_MS = 1_000
MINUTE_MS = 60 * SECOND_MS
HOUR_MS = 60 * MINUTE_MS
DAY_MS = 24 * HOUR_MS

REGIONS = ("north", "south", "east", "west")
_REGION_SHARES = (0.4, 0.3, 0.2, 0.1)

_LONGEST_MS = 5 * DAY_MS  # nobody comes back after that


@dataclass
class ClassRows:
    """The operations of one class, in order of submission, and the news that they wait for."""

    name: str
    timeout_ms: int
    needed: int | None
    submitted_ms: Int64s
    region: Int64s
    requires: list[tuple[Any, Int64s]] = field(default_factory=list)  # keys, offsets: one a place
    signals: list[tuple[Any, Int64s, Int64s]] = field(default_factory=list)  # keys, offsets, times
    cancels: list[tuple[Int64s, Int64s]] = field(default_factory=list)  # which operations, times

    def __len__(self) -> int:
        return len(self.submitted_ms)

    def ids(self) -> Any:
        return numbered(f"{self.name}-", np.arange(1, len(self) + 1), digits=7)


class Shop:
    """Makes each class in turn from one stream of chance, so that a seed says everything."""

    def __init__(self, rng: np.random.Generator, start_ms: int, days: int) -> None:
        self._rng = rng
        self._start_ms = start_ms
        self._days = days
        self._sale_ms = start_ms + (days - 1) // 2 * DAY_MS + 20 * HOUR_MS
        self._outage_ms = start_ms + (days - 1) * DAY_MS + 12 * HOUR_MS + 10 * MINUTE_MS

    def orders(self, count: int) -> ClassRows:
        rng = self._rng
        in_sale = int(count * 0.04)
        submitted = np.concatenate(
            [
                self._moments(count - in_sale),
                self._sale_ms + rng.exponential(12 * MINUTE_MS, in_sale).astype(np.int64),
            ]
        )
        products = max(20, count // 200)
        product = _skewed(rng, count, products, 1.1)
        product[count - in_sale :] = np.where(rng.random(in_sale) < 0.7, 0, product[:in_sale])
        order = np.argsort(submitted, kind="stable")
        submitted, product = submitted[order], product[order]
        waits = ClassRows("order", 30 * MINUTE_MS, None, submitted, self._regions(count))

        paid = submitted + self._after(count, 3 * MINUTE_MS, 1.1, tail=0.01)
        down = (paid >= self._outage_ms) & (paid < self._outage_ms + 40 * MINUTE_MS)
        back = rng.exponential(2 * MINUTE_MS, count).astype(np.int64)
        paid = np.where(down, self._outage_ms + 40 * MINUTE_MS + back, paid)
        withdrawn = rng.random(count) < 0.025
        abandoned = rng.random(count) < np.where(withdrawn, 0.85, 0.03)
        payments = numbered("payment-", np.arange(1, count + 1), digits=7)
        units, deliveries = self._rising(product, submitted, _stock_batch, self._stock_leads)
        stock = numbered("stock-", product, digits=4)
        waits.requires = [(payments, np.ones(count, np.int64)), (stock, units)]
        arrives = np.flatnonzero(~abandoned)
        waits.signals.append(
            (payments.take(arrives), np.ones(len(arrives), np.int64), paid[~abandoned])
        )
        waits.signals.append((numbered("stock-", deliveries[0], digits=4), *deliveries[1:]))

        cancelled = np.flatnonzero(withdrawn)
        at_ms = submitted[cancelled] + self._after(len(cancelled), 6 * MINUTE_MS, 1.0)
        waits.cancels.append((cancelled, at_ms))
        return waits

    def shipments(self, count: int) -> ClassRows:
        rng = self._rng
        submitted = np.sort(self._moments(count))
        region = self._regions(count)
        hub = region * 3 + rng.integers(0, 3, count)
        waits = ClassRows("shipment", 48 * HOUR_MS, 2, submitted, region)
        places, scans = self._rising(hub, submitted, _manifest_batch, self._manifest_leads)
        one = np.ones(count, np.int64)
        van = numbered("van-", np.arange(1, count + 1), digits=7)
        door = numbered("door-", np.arange(1, count + 1), digits=7)
        waits.requires = [(numbered("hub-", hub, digits=2), places), (van, one), (door, one)]
        waits.signals.append((numbered("hub-", scans[0], digits=2), *scans[1:]))
        lost = rng.random(count) < 0.004
        for keys, median_ms, spread in ((van, 5 * HOUR_MS, 0.5), (door, 9 * HOUR_MS, 0.3)):
            arrived = np.flatnonzero(~lost & (rng.random(count) > 0.01))
            at_ms = submitted[arrived] + self._after(len(arrived), median_ms, spread)
            waits.signals.append((keys.take(arrived), one[: len(arrived)], at_ms))
        cancelled = np.flatnonzero(rng.random(count) < 0.006)
        at_ms = submitted[cancelled] + self._after(len(cancelled), 2 * HOUR_MS, 0.8)
        waits.cancels.append((cancelled, at_ms))
        return waits

    def express(self, count: int) -> ClassRows:
        rng = self._rng
        submitted = np.sort(self._moments(count))
        waits = ClassRows("express", 20 * MINUTE_MS, 1, submitted, self._regions(count))
        one = np.ones(count, np.int64)
        position = numbered("position-", np.arange(1, count + 1), digits=7)
        handed = numbered("handed-", np.arange(1, count + 1), digits=7)
        waits.requires = [(position, one), (handed, one)]
        for keys, median_ms, share in (
            (position, 10 * MINUTE_MS, 0.9),
            (handed, 14 * MINUTE_MS, 0.97),
        ):
            arrived = np.flatnonzero(rng.random(count) < share)
            at_ms = submitted[arrived] + self._after(len(arrived), median_ms, 0.65, tail=0.003)
            waits.signals.append((keys.take(arrived), one[: len(arrived)], at_ms))
        cancelled = np.flatnonzero(rng.random(count) < 0.01)
        at_ms = submitted[cancelled] + self._after(len(cancelled), 5 * MINUTE_MS, 0.8)
        waits.cancels.append((cancelled, at_ms))
        return waits

    def refunds(self, count: int) -> ClassRows:
        rng = self._rng
        submitted = np.sort(self._moments(count))
        waits = ClassRows("refund", 24 * HOUR_MS, None, submitted, self._regions(count))
        one = np.ones(count, np.int64)
        bank = numbered("bank-", np.arange(1, count + 1), digits=7)
        waits.requires = [(bank, one)]
        arrived = np.flatnonzero(rng.random(count) > 0.002)
        at_ms = submitted[arrived] + self._after(len(arrived), 25 * MINUTE_MS, 0.9)
        waits.signals.append((bank.take(arrived), one[: len(arrived)], at_ms))
        return waits

    def _moments(self, count: int) -> Int64s:
        """Moments of the days, more of them when the shop is busy."""
        hours = np.arange(24 * 60) / 60
        shape = (
            0.12
            + np.exp(-(((hours - 12.5) / 2.4) ** 2))
            + 1.3 * np.exp(-(((hours - 20.0) / 1.9) ** 2))
        )
        busy = np.cumsum(np.tile(shape, self._days))
        minutes = np.interp(self._rng.random(count) * busy[-1], busy, np.arange(1, len(busy) + 1))
        passed_ms: Int64s = np.floor(minutes * MINUTE_MS).astype(np.int64)
        return self._start_ms + passed_ms

    def _after(self, count: int, median_ms: int, spread: float, tail: float = 0.0) -> Int64s:
        """Log-normal waits; a share of them, `tail`, are longer by a factor without bounds."""
        waits = self._rng.lognormal(np.log(median_ms), spread, count)
        stretched = self._rng.random(count) < tail
        waits *= np.where(stretched, 2 + 2 * self._rng.pareto(1.2, count), 1.0)
        return np.minimum(waits, _LONGEST_MS).astype(np.int64)

    def _regions(self, count: int) -> Int64s:
        return self._rng.choice(len(REGIONS), count, p=_REGION_SHARES).astype(np.int64)

    def _rising(
        self, source: Int64s, submitted_ms: Int64s, batch: Any, leads: Any
    ) -> tuple[Int64s, tuple[Int64s, Int64s, Int64s]]:
        """Give each operation the next unit of its source, and make the batches that bring them.

        The k-th batch of a source covers the units that follow the batches before it; it comes a
        lead before the first of them is asked for, or after it if the lead is negative, and not
        before the batches that precede it.
        """
        order = np.argsort(source, kind="stable")  # by source, then by submission
        sorted_source = source[order]
        first = np.flatnonzero(np.r_[True, sorted_source[1:] != sorted_source[:-1]])
        sizes = np.diff(np.r_[first, len(source)])
        rank = np.arange(len(source)) - np.repeat(first, sizes)
        units = np.empty(len(source), np.int64)
        units[order] = rank + 1
        size_of_batch = np.repeat(batch(sizes), sizes)
        brings = np.flatnonzero(rank % size_of_batch == 0)
        at_ms = submitted_ms[order][brings] - leads(len(brings))
        at_ms = _in_order(sorted_source[brings], at_ms - self._start_ms) + self._start_ms
        up_to = rank[brings] + size_of_batch[brings]
        return units, (sorted_source[brings], up_to.astype(np.int64), at_ms)

    def _stock_leads(self, count: int) -> Int64s:
        """Mostly an hour ahead; one delivery in thirty comes late, and holds up those behind it."""
        ahead = self._after(count, HOUR_MS, 0.5)
        late = self._rng.random(count) < 1 / 30
        return np.where(late, -self._after(count, 20 * MINUTE_MS, 0.8), ahead)

    def _manifest_leads(self, count: int) -> Int64s:
        """A hub scans a manifest hours after the first of its parcels was handed in."""
        return -self._after(count, 3 * HOUR_MS, 0.3)


def numbered(prefix: str, numbers: Int64s, *, digits: int) -> Any:
    """Names like `order-0000042`, as an Arrow array."""
    padded = pc.utf8_lpad(pc.cast(pa.array(numbers), pa.string()), width=digits, padding="0")
    return pc.binary_join_element_wise(pa.scalar(prefix), padded, "")


def _skewed(rng: np.random.Generator, count: int, among: int, exponent: float) -> Int64s:
    """Numbers from 0 up, the first much more popular than the last."""
    popularity = np.cumsum(1 / np.arange(2, among + 2) ** exponent)
    drawn = rng.random(count) * popularity[-1]
    return np.asarray(np.searchsorted(popularity, drawn, side="right"), np.int64)


def _in_order(source: Int64s, at_ms: Int64s) -> Int64s:
    """Times that never go back within a source; the rows of a source lie together."""
    apart = np.cumsum(np.r_[False, source[1:] != source[:-1]]) << 40  # longer than any trace
    return np.asarray(np.maximum.accumulate(at_ms + apart) - apart, np.int64)


def _stock_batch(sizes: Int64s) -> Int64s:
    return np.maximum(5, sizes // 100)


def _manifest_batch(sizes: Int64s) -> Int64s:
    return np.maximum(5, sizes // 150)
