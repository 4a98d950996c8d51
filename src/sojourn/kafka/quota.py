"""The controller mutation quota: how many partitions may be created or deleted each second.

A token bucket, one token for each partition. It fills at the quota's rate and holds what comes in
over Kafka's quota windows. A request is accepted while the bucket is not below zero, and may take
it below; later requests get the time until it is back at zero as their throttle time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from sojourn.kafka.refusal import Refused
from sojourn.kafka.wire import ErrorCode

if TYPE_CHECKING:
    from sojourn.kafka.broker import Context
    from sojourn.kafka.cluster import Cluster


class MutationQuota:
    """Counts the partitions that are created and deleted."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._tokens: float | None = None
        self._filled_ms = 0

    def take(self, partitions: int, strict: bool = True) -> int:
        """Take this many tokens; return the throttle time in ms, 0 if the quota allows them.

        If not strict they are taken also above the quota.
        """
        settings = self._cluster.settings
        rate = float(settings.text("sojourn.partition.mutations.per.second"))
        if math.isinf(rate):
            return 0
        now_ms = self._cluster.now_ms()
        windows = settings.number("controller.quota.window.num")
        most = rate * windows * settings.number("controller.quota.window.size.seconds")
        if self._tokens is None:
            self._tokens = most
        else:
            self._tokens = min(most, self._tokens + rate * (now_ms - self._filled_ms) / 1000)
        self._filled_ms = now_ms
        if self._tokens < 0:
            if not strict:
                self._tokens -= partitions
            return self._wait_ms(rate)
        self._tokens -= partitions
        return 0 if strict or self._tokens >= 0 else self._wait_ms(rate)

    def _wait_ms(self, rate: float) -> int:
        assert self._tokens is not None
        return math.ceil(-self._tokens / rate * 1000) if rate > 0 else 2**31 - 1


class Throttle:
    """One request against the quota: the longest throttle time of its topics."""

    def __init__(self, context: Context, strict_from: int) -> None:
        self._quota = context.broker.cluster.mutations
        self._strict = context.api_version >= strict_from
        self.ms = 0

    def take(self, partitions: int) -> None:
        wait_ms = self._quota.take(partitions, self._strict)
        self.ms = max(self.ms, wait_ms)
        if wait_ms and self._strict:
            raise Refused(
                ErrorCode.throttling_quota_exceeded, "The throttling quota has been exceeded."
            )
