"""Timer and purgatory for asyncio: driven by the running loop, no thread; in seconds.

    purgatory = aio.Purgatory()
    paid = await purgatory.wait(order.is_paid, keys=[order.id], timeout=30)

    purgatory.check_and_complete(order.id)      # news: from the loop or from any other thread

One `loop.call_at` is pending at a time, for the next bucket, however many tasks wait.
"""

from sojourn.aio.purgatory import Purgatory as Purgatory  # where tasks wait
from sojourn.aio.timer import Timer as Timer  # calls functions after a delay
