"""Waiting for a condition in asyncio: a predicate, the keys that bring news of it, a timeout.

python -m examples.async_wait
"""

from __future__ import annotations

import asyncio
import threading

from sojourn import aio

stock = {"apples": 0, "pears": 0}


async def buy(purgatory: aio.Purgatory, fruit: str, count: int) -> None:
    in_time = await purgatory.wait(lambda: stock[fruit] >= count, keys=[fruit], timeout=0.3)
    if in_time:
        stock[fruit] -= count
        print(f"bought {count} {fruit}, {stock[fruit]} left")
    else:
        print(f"gave up on {count} {fruit}")


def deliver(purgatory: aio.Purgatory, fruit: str, count: int) -> None:
    stock[fruit] += count
    purgatory.check_and_complete(fruit)


async def main() -> None:
    async with aio.Purgatory("shop") as purgatory:
        shopper = asyncio.create_task(buy(purgatory, "apples", 5))
        unlucky = asyncio.create_task(buy(purgatory, "pears", 5))
        await asyncio.sleep(0)  # both wait now
        print(f"{purgatory.delayed} wait")

        deliver(purgatory, "apples", 3)  # not enough: the predicate is looked at, and waits on
        # News may come from any thread; the predicate is still looked at in the loop's thread.
        courier = threading.Thread(target=deliver, args=(purgatory, "apples", 4))
        courier.start()
        await asyncio.gather(shopper, unlucky)
        courier.join()


if __name__ == "__main__":
    asyncio.run(main())
