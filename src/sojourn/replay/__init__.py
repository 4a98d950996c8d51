"""Operations as rows: the purgatory's rules, applied to tables in this process."""

try:
    import numpy as _numpy  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sojourn.replay needs pyarrow and numpy, and {error.name} is not installed; "
        "pip install sojourn[replay]",
        name=error.name,
    ) from error

from sojourn.replay.columns import as_cancels as as_cancels  # a table as it is, as cancels
from sojourn.replay.columns import as_operations as as_operations  # the same as operations
from sojourn.replay.columns import as_signals as as_signals  # the same as signals
from sojourn.replay.engine import Engine as Engine  # takes rows as they come, ends operations
from sojourn.replay.engine import Step as Step  # what one advance of an engine brought
from sojourn.replay.local import Resolution as Resolution  # outcomes, pending, rejected
from sojourn.replay.local import resolve as resolve  # whole tables in, whole tables out
