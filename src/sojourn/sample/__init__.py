"""Realistic traces made from a seed."""

from sojourn.sample.layout import write as write  # lay a trace out in files, as it arrived
from sojourn.sample.trace import START_MS as START_MS  # when a trace begins unless told otherwise
from sojourn.sample.trace import Trace as Trace  # operations, signals and cancels
from sojourn.sample.trace import make as make  # a trace from a seed
