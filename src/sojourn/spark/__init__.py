"""Operations as rows on Spark: DataFrames in, DataFrames out, batch and streaming."""

try:
    import pyspark as _pyspark  # noqa: F401
except ImportError as error:
    raise ImportError(
        f"sojourn.spark needs PySpark, and {error.name} is not installed; "
        "pip install sojourn[spark]",
        name=error.name,
    ) from error

from sojourn.spark.batch import Resolution as Resolution  # outcomes, pending, rejected, all rows
from sojourn.spark.batch import resolve as resolve  # whole DataFrames in, DataFrames out
from sojourn.spark.checkpoints import Checkpoint as Checkpoint  # what a checkpoint holds
from sojourn.spark.checkpoints import Fork as Fork  # a checkpoint to begin with
from sojourn.spark.checkpoints import fork_checkpoint as fork_checkpoint  # go on in another one
from sojourn.spark.columns import as_cancels as as_cancels  # a DataFrame as it is, as cancels
from sojourn.spark.columns import as_operations as as_operations  # the same as operations
from sojourn.spark.columns import as_signals as as_signals  # the same as signals
from sojourn.spark.session import local_session as local_session  # Spark on this machine, quiet
from sojourn.spark.sinks import StreamBatch as StreamBatch  # what a batch brought, what is held
from sojourn.spark.sinks import to_kafka as to_kafka  # outcomes as messages
from sojourn.spark.sinks import write_kafka as write_kafka  # to a topic, exactly once
from sojourn.spark.sinks import write_stream as write_stream  # to folders, exactly once
from sojourn.spark.sources import KAFKA_PACKAGE as KAFKA_PACKAGE  # the connector's Maven name
from sojourn.spark.sources import from_kafka as from_kafka  # a topic of JSON values
from sojourn.spark.sources import parse_json as parse_json  # texts into a table's columns
from sojourn.spark.sources import read_files as read_files  # a folder as it fills
from sojourn.spark.stream import StreamResolution as StreamResolution  # outcomes, rejected, rows
from sojourn.spark.stream import resolve_stream as resolve_stream  # how operations end, as they end
from sojourn.spark.stream import stream_settings as stream_settings  # what a session needs for it
from sojourn.spark.tables import read_table as read_table  # files, as `replay` reads them
