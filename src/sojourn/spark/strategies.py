"""The strategies: broadcast the signals, or shuffle all rows; and which of them suits an input.

The broadcast path (broadcast.py) costs each core a copy of the signals, and saves the shuffles of
operations. So it is taken if there are few signals for the operations, and they fit every machine
by a wide margin. If Spark does not know how large the input is, rows are shuffled, which is always
right.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pyspark.sql import functions as sf
from pyspark.sql.types import ArrayType

from sojourn.errors import OutOfRange
from sojourn.spark.frames import Tables, is_remote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

AUTO, BROADCAST, SHUFFLE = STRATEGIES = ("auto", "broadcast", "shuffle")

# In bytes as Spark knows them, which for files is their size. Each core reads the signals once,
# which costs it less than a quarter of what it would cost to shuffle as many bytes of operations.
_MOST_SIGNAL_BYTES = 128 << 20
_SIGNALS_PER_OPERATIONS = 4


def checked_strategy(strategy: Any, operations: DataFrame) -> str:
    if strategy not in STRATEGIES:
        choices = ", ".join(f'"{name}"' for name in STRATEGIES)
        raise OutOfRange(f"strategy must be one of {choices}, got {strategy!r}")
    if strategy == BROADCAST and is_remote(operations):
        raise OutOfRange(
            'strategy is "broadcast", but Spark Connect has no broadcast; '
            'use "auto" or "shuffle", or a session without Connect'
        )
    return str(strategy)


def suits_broadcast(tables: Tables, cores: int) -> bool:
    """Whether a broadcast is likely to be the faster way, and sure to be right."""
    operation_bytes, signal_bytes = tables.operations.known_bytes, tables.signals.known_bytes
    cancel_bytes = 0 if tables.cancels is None else tables.cancels.known_bytes
    if operation_bytes is None or signal_bytes is None or cancel_bytes is None:
        return False
    index_bytes = signal_bytes + cancel_bytes
    return (
        index_bytes <= _MOST_SIGNAL_BYTES
        and index_bytes * cores <= _SIGNALS_PER_OPERATIONS * operation_bytes
    )


def has_one_requirement_each(operations: DataFrame, tables: Tables) -> bool:
    """Whether one shuffle is enough (single.py); it looks at the rows, up to the first with two.

    Operations are read twice on that way, and cancels broadcast.
    """
    cancel_bytes = 0 if tables.cancels is None else tables.cancels.known_bytes
    return (
        not is_remote(operations)
        and is_the_same_again(operations)
        and cancel_bytes is not None
        and cancel_bytes <= _MOST_SIGNAL_BYTES
        and isinstance(operations.schema["requires"].dataType, ArrayType)
        and operations.where(sf.size("requires") > 1).isEmpty()
    )


def is_the_same_again(df: DataFrame) -> bool:
    """Whether it has the same rows each time it is read, as far as Spark knows."""
    return bool(df._jdf.queryExecution().analyzed().deterministic())
