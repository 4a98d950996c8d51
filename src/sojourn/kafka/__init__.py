"""A Kafka cluster in one process, for testing clients."""

from sojourn.kafka.cluster import Cluster as Cluster  # brokers, sockets and faults
