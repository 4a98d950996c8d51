"""Park an operation until its condition holds or its time runs out, once."""

from sojourn._build import compiled as compiled  # whether the compiled build is in use
from sojourn.clock import Clock as Clock  # what a timer asks of a clock
from sojourn.clock import ManualClock as ManualClock  # a clock moved by hand, for tests
from sojourn.clock import SystemClock as SystemClock  # the monotonic system clock
from sojourn.deadlines import DeadlineWheel as DeadlineWheel  # very many timers, by number
from sojourn.errors import SojournError as SojournError  # the base of every error of ours
from sojourn.futures import DelayedFuture as DelayedFuture  # waits for several futures
from sojourn.operation import DelayedOperation as DelayedOperation  # something that waits
from sojourn.purgatory import Purgatory as Purgatory  # where operations wait
from sojourn.reaper import prompt_switching as prompt_switching  # less late beside busy threads
from sojourn.task import TimerTask as TimerTask  # something to run after a delay
from sojourn.timer import Timer as Timer  # runs tasks after their delay
from sojourn.wheel import TimingWheel as TimingWheel  # the hierarchical timing wheel

__version__ = "0.1.0"
