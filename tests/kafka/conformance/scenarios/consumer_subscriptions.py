"""What consumers read, by name or by regular expression, and how their groups follow it."""

from __future__ import annotations

from tests.kafka.conformance.scenarios.consumer_groups import (
    AT_ONCE,
    Consumer,
    described,
    start,
)
from tests.kafka.conformance.scenarios.scenario import scenario
from tests.kafka.conformance.world import World


@scenario(config=AT_ONCE)
def topics_of_consumers(world: World) -> None:
    start(world)
    one = Consumer(world, "one", topics=("t", "u"))
    one.join("joins")
    one.own("owns them")
    more = {"topics": [{"name": "t", "count": 6, "assignments": None}], "timeout": 10_000}
    world.exchange(1, "setup").ask("create_partitions", 3, **more)
    world.setup(
        lambda answer: len(answer["topics"][0]["partitions"]) == 6,
        "metadata",
        12,
        topics=[{"name": "t"}],
    )
    world.advance(500)
    described(world, "partitions were added")
    one.beat("hears of the partitions")
    described(world, "the partitions are assigned")
    world.topic("u", partitions=2)
    world.advance(500)
    described(world, "a topic was created")
    one.beat("hears of the topic")
    one.own("owns it")
    world.exchange(1, "setup").ask("delete_topics", 5, topic_names=["t"], timeout=10_000)
    world.setup(
        lambda answer: answer["topics"][0]["error_code"] == 3,
        "metadata",
        12,
        topics=[{"name": "t"}],
        allow_auto_topic_creation=False,
    )
    world.advance(500)
    described(world, "a topic was deleted")
    one.beat("hears of the deletion")
    described(world, "the deleted topic is given up")
    one.own("gave it up")
    described(world, "without the deleted topic")


@scenario(config=AT_ONCE)
def regexes_of_consumers(world: World) -> None:
    start(world, topic=2, other=2)
    one = Consumer(world, "one", topics=None, subscribed_topic_regex="to.*")
    one.join("joins")
    world.advance(500)
    described(world, "it is resolved")
    one.beat("has its topic")
    described(world, "it has its topic")
    two = Consumer(world, "two", topics=None, subscribed_topic_regex="to.*")
    two.join("joins with the same")
    described(world, "two with the same")
    one.beat("hears of the second")
    one.own("gives up")
    two.beat("has its part")
    two.beat("leaves", epoch=-1)
    one.beat("has all")
    one.own("owns all")
    one.beat("another regex", subscribed_topic_regex="o.*r")
    world.advance(500)
    described(world, "another regex")
    one.own("gave up the topic")
    world.advance(500)
    described(world, "the other regex is resolved")
    one.beat("has the other topic")
    described(world, "it has the other topic")
    world.topic("nope", partitions=1)
    world.topic("outer", partitions=1)
    one.beat("too early for new topics")
    world.advance(500)
    one.beat("nothing new yet")
    world.advance(10_500)
    one.beat("ten seconds later")
    world.advance(500)
    described(world, "a topic matches")
    one.beat("has the topic")
    described(world, "it has both topics")
    one.beat("names and a regex", subscribed_topic_names=["topic"])
    described(world, "names and a regex")
    one.beat("no regex", subscribed_topic_regex="")
    described(world, "no regex")
