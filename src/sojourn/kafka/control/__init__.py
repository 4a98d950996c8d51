"""The control port: a cluster's clock, faults, topics and purgatories over HTTP."""

from sojourn.kafka.control.server import Control as Control  # serves the port
