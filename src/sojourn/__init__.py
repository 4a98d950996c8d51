"""Park an operation until its condition holds or its time runs out, once.

Here are the core's names; `sojourn.aio`, `sojourn.spark` and the other packages have their own.
"""

from sojourn._build import compiled as compiled  # whether the compiled build is in use
from sojourn.core import Clock as Clock  # what a timer asks of a clock
from sojourn.core import DeadlineWheel as DeadlineWheel  # very many timers, by number
from sojourn.core import DelayedFuture as DelayedFuture  # waits for several futures
from sojourn.core import DelayedOperation as DelayedOperation  # something that waits
from sojourn.core import ManualClock as ManualClock  # a clock moved by hand, for tests
from sojourn.core import Purgatory as Purgatory  # where operations wait
from sojourn.core import SystemClock as SystemClock  # the monotonic system clock
from sojourn.core import Timer as Timer  # runs tasks after their delay
from sojourn.core import TimerTask as TimerTask  # something to run after a delay
from sojourn.core import TimingWheel as TimingWheel  # the hierarchical timing wheel
from sojourn.core import prompt_switching as prompt_switching  # less late beside busy threads
from sojourn.errors import SojournError as SojournError  # the base of every error of ours

__version__ = "0.1.0"
