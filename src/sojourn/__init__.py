from sojourn.wheel import TimingWheel
from sojourn.task import TimerTask
from sojourn.timer import Timer
from sojourn.clock import ManualClock, SystemClock
