"""`sojourn kafka`: run a Kafka cluster in this process, and show what waits in it."""

from __future__ import annotations

import argparse
import re
from contextlib import ExitStack
from typing import Any, NamedTuple

from sojourn.cli.kafka_display import display, watch
from sojourn.cli.options import add_command, duration_ms, setting
from sojourn.errors import OutOfRange, SojournError

_EXAMPLES = """\
Brokers listen on PORT and the ports after it. Everything is in memory and lost when the command
ends: this is for testing clients, not for data. Ctrl-C ends it.

On a terminal a table shows the purgatories as they change; elsewhere a line is written when they
change. `watched` counts the keys on which requests wait, `delayed` the timeouts that run.

--control opens an HTTP port for tests in any language: the clock, faults, topics, records and
waiting requests; docs/kafka-testing.md has a test in each of four languages.

examples:
  sojourn kafka --brokers 3 --port 9092
  sojourn kafka --control 8092 --manual-clock
  sojourn kafka --topic orders:6:3 --brokers 3 --config group.initial.rebalance.delay.ms=3000
"""


class TopicOption(NamedTuple):
    """A topic to create at the start."""

    name: str
    partitions: int
    replication_factor: int


def topic(text: str) -> TopicOption:
    """A topic from NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS."""
    match = re.fullmatch(r"([^:]+)(?::(\d+))?(?::(\d+))?", text)
    if match is None:
        raise argparse.ArgumentTypeError(
            f"{text!r} is not a topic: write NAME, NAME:PARTITIONS or NAME:PARTITIONS:REPLICAS"
        )
    return TopicOption(match[1], int(match[2] or 1), int(match[3] or 1))


def user(text: str) -> tuple[str, str]:
    """A name and a password from NAME:PASSWORD."""
    name, _, password = text.partition(":")
    if not name or not password:
        raise argparse.ArgumentTypeError(f"{text!r} is not a user: write NAME:PASSWORD")
    return name, password


def add_parser(commands: Any) -> None:
    parser = add_command(
        commands,
        "kafka",
        _run,
        help="run a Kafka cluster in this process, for testing clients",
        description="Run a Kafka cluster in this process, and show what waits in it.",
        examples=_EXAMPLES,
    )
    parser.add_argument("--brokers", type=int, default=1, metavar="N", help="default 1")
    parser.add_argument(
        "--first-id",
        type=int,
        default=1,
        metavar="N",
        help="the first broker's id; the others follow; default 1",
    )
    parser.add_argument(
        "--port",
        type=int,
        default=9092,
        metavar="PORT",
        help="the first broker's port; 0 takes free ports; default 9092",
    )
    parser.add_argument(
        "--host",
        default="127.0.0.1",
        help="the address to listen on; the default lets only this machine connect",
    )
    parser.add_argument(
        "--topic",
        type=topic,
        action="append",
        default=[],
        metavar="NAME[:PARTITIONS[:REPLICAS]]",
        help="a topic to create at the start; may be given several times",
    )
    parser.add_argument(
        "--config",
        type=setting,
        action="append",
        default=[],
        metavar="NAME=VALUE",
        help="a broker setting by its Kafka name; may be given several times",
    )
    parser.add_argument(
        "--security",
        choices=("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"),
        default="PLAINTEXT",
        help="Kafka's security protocol; certificates for SSL are made at the start",
    )
    parser.add_argument(
        "--user",
        type=user,
        action="append",
        default=[],
        metavar="NAME:PASSWORD",
        help="a SASL user; may be given several times",
    )
    parser.add_argument(
        "--control",
        type=int,
        metavar="PORT",
        help="an HTTP port to move the clock, script faults, append and read; 0 takes a free one",
    )
    parser.add_argument(
        "--control-host",
        default="127.0.0.1",
        metavar="HOST",
        help="the control port's address; the default lets only this machine connect",
    )
    parser.add_argument(
        "--host-name",
        action="append",
        default=[],
        metavar="NAME",
        help="a host name of the control port, besides localhost; may be given several times",
    )
    parser.add_argument(
        "--manual-clock",
        action="store_true",
        help="use a clock that only the control port moves",
    )
    parser.add_argument(
        "--for",
        dest="length_ms",
        type=duration_ms,
        metavar="DURATION",
        help="end after 10s, 5min, …; default: run until Ctrl-C",
    )
    parser.add_argument("--quiet", action="store_true", help="print only where it listens")


def _run(args: argparse.Namespace) -> int:
    from sojourn.core.clock import ManualClock
    from sojourn.kafka import Cluster
    from sojourn.kafka.control import Control

    if args.brokers < 1:
        raise OutOfRange(f"--brokers must be 1 or more, got {args.brokers}")
    if not 0 <= args.port <= 65_536 - args.brokers:
        raise OutOfRange(
            f"--port must leave room for {args.brokers} ports up to 65535, got {args.port}"
        )
    if not 0 <= args.first_id <= 2**31 - args.brokers:
        raise OutOfRange(
            f"--first-id must be 0 or more and leave room for {args.brokers} ids up to "
            f"{2**31 - 1}, got {args.first_id}"
        )
    if args.control is not None and not 0 <= args.control <= 65_535:
        raise OutOfRange(f"--control must be a port, 0 to 65535, got {args.control}")
    if args.manual_clock and args.control is None:
        raise OutOfRange("--manual-clock needs --control PORT, which moves it")
    ids = range(args.first_id, args.first_id + args.brokers)
    clock = ManualClock() if args.manual_clock else None
    try:
        cluster = Cluster(
            ids,
            clock=clock,
            host=args.host,
            port=args.port,
            config=dict(args.config),
            security=args.security,
            users=dict(args.user) or None,
        )
    except OSError as error:
        raise SojournError(
            f"cannot listen on {args.host}, port {args.port}: {error.strerror}; "
            "give another --port, or 0 for any"
        ) from error
    with cluster, ExitStack() as stack:
        for option in args.topic:
            cluster.create_topic(option.name, option.partitions, option.replication_factor)
        print(f"listening on {cluster.bootstrap_servers}", flush=True)
        if args.security.endswith("SSL"):
            print(f"clients must trust {cluster.ca_file}", flush=True)
        if args.control is not None:
            control = Control(
                cluster, args.control, host=args.control_host, host_names=args.host_name
            )
            stack.enter_context(control)
            print(f"control on {control.url}", flush=True)
        with display(cluster, quiet=args.quiet) as show:
            watch(show, args.length_ms)
    return 0
