"""A Kafka cluster in one process, for testing clients."""

try:
    from sojourn.kafka.cluster import Cluster as Cluster  # brokers, sockets and faults
    from sojourn.kafka.faults import Fault as Fault  # what is scripted to go wrong
    from sojourn.kafka.log.record import (
        Record as Record,  # what is appended and read without a client
    )
except ModuleNotFoundError as error:
    if (error.name or "").startswith("sojourn"):
        raise
    raise ImportError(
        f"sojourn.kafka needs {error.name}, which is not installed; pip install sojourn[kafka]",
        name=error.name,
    ) from error
