"""Faults that a test scripts: which requests they are meant for, and what happens to those."""

from sojourn.kafka.faults.fault import Fault as Fault  # one scripted fault
from sojourn.kafka.faults.faults import Faults as Faults  # all of a cluster
