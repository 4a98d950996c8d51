"""The history of a durable purgatory: everything it took and told, as Parquet by hour."""

try:
    import numpy as _numpy  # noqa: F401
    import pyarrow as _pyarrow  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sojourn.history needs pyarrow and numpy, and {error.name} is not installed; "
        "pip install sojourn[replay]"
    ) from error

from sojourn.history.findings import Difference as Difference  # one thing that is not so
from sojourn.history.recorder import Recorder as Recorder  # writes a history as it happens
from sojourn.history.verification import Verification as Verification  # what was proven
from sojourn.history.verification import verify as verify  # replays a history, and compares
