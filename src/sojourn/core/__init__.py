"""The core: timers, operations and the purgatory where they wait. Needs nothing but Python."""

from sojourn.core.clock import Clock as Clock  # what a timer asks of a clock
from sojourn.core.clock import ManualClock as ManualClock  # a clock moved by hand, for tests
from sojourn.core.clock import SystemClock as SystemClock  # the monotonic system clock
from sojourn.core.deadlines import DeadlineWheel as DeadlineWheel  # very many timers, by number
from sojourn.core.futures import DelayedFuture as DelayedFuture  # waits for several futures
from sojourn.core.histogram import HistogramSnapshot as HistogramSnapshot  # durations, counted
from sojourn.core.operation import DelayedOperation as DelayedOperation  # something that waits
from sojourn.core.purgatory import Purgatory as Purgatory  # where operations wait
from sojourn.core.reaper import prompt_switching as prompt_switching  # less late, busy threads
from sojourn.core.residents import PurgatoryMetrics as PurgatoryMetrics  # what it counted
from sojourn.core.task import TimerTask as TimerTask  # something to run after a delay
from sojourn.core.timer import Timer as Timer  # runs tasks after their delay
from sojourn.core.wheel import BucketSnapshot as BucketSnapshot  # what waits in one of its buckets
from sojourn.core.wheel import LevelSnapshot as LevelSnapshot  # what waits in one of its levels
from sojourn.core.wheel import TimingWheel as TimingWheel  # the hierarchical timing wheel
from sojourn.core.wheel import WheelSnapshot as WheelSnapshot  # what waits in the wheel
