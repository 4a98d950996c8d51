"""Housekeeping: what a cluster does at intervals, on its own clock.

replicas that lag              leave the replicas in sync; twice in `replica.lag.time.max.ms`
records                        retention, every `log.retention.check.interval.ms`
compaction                     every `log.cleaner.backoff.ms`, with `log.cleaner.enable`
producers' states              every `producer.id.expiration.check.interval.ms`
committed offsets              every `offsets.retention.check.interval.ms`
transactional ids              every `transaction.remove.expired...cleanup.interval.ms`
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from sojourn.kafka.partition import Partition

if TYPE_CHECKING:
    from sojourn.kafka.cluster import Cluster


def start_housekeeping(cluster: Cluster, is_closed: Callable[[], bool]) -> None:
    """Begin; it ends when the cluster is closed."""
    number = cluster.settings.number

    def each_partition(check: Callable[[Partition], None]) -> Callable[[], None]:
        def check_all() -> None:
            for partition in cluster.controller.partitions():
                check(partition)

        return check_all

    intervals_ms: list[tuple[int, Callable[[], None]]] = [
        (max(1, number("replica.lag.time.max.ms") // 2), each_partition(Partition.shrink_isr)),
        (number("log.retention.check.interval.ms"), each_partition(Partition.apply_retention)),
        (
            number("producer.id.expiration.check.interval.ms"),
            each_partition(Partition.expire_producers),
        ),
        (number("offsets.retention.check.interval.ms"), cluster.groups.expire),
        (
            number("transaction.remove.expired.transaction.cleanup.interval.ms"),
            cluster.transactions.expire,
        ),
    ]
    if cluster.settings.flag("log.cleaner.enable"):
        interval_ms = max(1, number("log.cleaner.backoff.ms"))
        intervals_ms.append((interval_ms, each_partition(Partition.compact)))
    for interval_ms, check in intervals_ms:
        _repeat(cluster, interval_ms, check, is_closed)


def _repeat(
    cluster: Cluster, interval_ms: int, check: Callable[[], None], is_closed: Callable[[], bool]
) -> None:
    """Do this at every interval, with the agenda held."""

    def check_and_repeat() -> None:
        with cluster.agenda:
            if not is_closed():
                check()
                cluster.timer.call_later(interval_ms, check_and_repeat)

    cluster.timer.call_later(interval_ms, check_and_repeat)
