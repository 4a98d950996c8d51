"""Topic: a Kafka topic for the sink, through Spark's connector and the client it brings."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from sojourn.errors import SojournError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_EARLIEST = -2  # as the connector has it
_WAIT_S = 60


@dataclass(frozen=True)
class Topic:
    """A topic and the connector's options, "kafka.bootstrap.servers" among them."""

    name: str
    options: dict[str, str]

    def send(self, messages: DataFrame) -> None:
        """Send a batch of keys and values."""
        messages.write.format("kafka").options(**self.options).option("topic", self.name).save()

    def ends(self, spark: SparkSession) -> str:
        """Say where its partitions end now, as JSON; without any if it is not there yet."""
        jvm: Any = spark._jvm
        settings = jvm.java.util.HashMap()
        for name, value in self.options.items():
            if name.startswith("kafka."):
                settings.put(name.removeprefix("kafka."), value)
        admin = jvm.org.apache.kafka.clients.admin.Admin.create(settings)
        try:
            return json.dumps(self._ends(jvm, admin))
        finally:
            admin.close()

    def _ends(self, jvm: Any, admin: Any) -> dict[str, int]:
        kafka, seconds = jvm.org.apache.kafka, jvm.java.util.concurrent.TimeUnit.SECONDS
        # The list is latest for, since to describe a topic may create it.
        if not admin.listTopics().names().get(_WAIT_S, seconds).contains(self.name):
            return {}
        names = jvm.java.util.Collections.singletonList(self.name)
        described = admin.describeTopics(names).allTopicNames().get(_WAIT_S, seconds)
        latest = jvm.java.util.HashMap()
        for partition in described.get(self.name).partitions():
            at = kafka.common.TopicPartition(self.name, partition.partition())
            latest.put(at, kafka.clients.admin.OffsetSpec.latest())
        offsets = admin.listOffsets(latest).all().get(_WAIT_S, seconds)
        return {str(at.partition()): offsets.get(at).offset() for at in latest.keySet()}

    def since(self, spark: SparkSession, ends: str) -> DataFrame:
        """Return the keys and values behind what `ends` said."""
        now = json.loads(self.ends(spark))
        start = dict.fromkeys(now, _EARLIEST) | json.loads(ends)
        if not start:
            return spark.createDataFrame([], "key string, value string")
        if missing := sorted(set(start) - set(now), key=int):
            raise SojournError(
                f"the topic {self.name} has lost its partitions {', '.join(missing)} since a batch "
                "was sent to it; what got through cannot be known: use a new checkpoint"
            )
        reader = spark.read.format("kafka").options(**self.options).option("subscribe", self.name)
        reader = reader.option("startingOffsets", json.dumps({self.name: start}))
        rows = reader.option("endingOffsets", json.dumps({self.name: now})).load()
        return rows.selectExpr("cast(key as string) as key", "cast(value as string) as value")
