"""The numbers of purgatories, timers and Kafka clusters, for Prometheus and OpenTelemetry."""

from sojourn.metrics.collector import Collector as Collector  # exports the numbers of its sources
from sojourn.metrics.numbers import Labelled as Labelled  # values with labels
from sojourn.metrics.numbers import Served as Served  # a source of a service's numbers
from sojourn.metrics.numbers import ServiceMetrics as ServiceMetrics  # what it tells of itself
