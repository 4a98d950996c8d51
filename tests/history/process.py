"""A process that records a history until it is killed, and notes what it was told.

    python -m tests.history.process live FOLDER SEED            on the system clock, by threads
    python -m tests.history.process hour FOLDER SEED MINUTES    on a hand-moved clock, until so much
                                                          time has passed; then it says "over"

In FOLDER are waits.db, history and notes. A note is one line of JSON, appended only after the call
has returned.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading
from pathlib import Path

from sojourn import ManualClock, durable, history
from sojourn.durable import snapshots
from tests.history.world import Unsynced

START_MS = 1_763_244_000_000
HOT_KEYS = [f"k{n}" for n in range(300)]
KEYS = [f"k{n}" for n in range(3_000)]  # of the others some are forgotten, and come again


class Notes:
    """A file to which lines are appended in one step each."""

    def __init__(self, path: Path) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, rows: list[list[object]]) -> None:
        lines = "".join(json.dumps(row) + "\n" for row in rows)
        os.write(self._file, lines.encode())


class Client:
    """Sends random commands, and notes those that were accepted."""

    def __init__(self, waits: durable.Purgatory, notes: Notes, name: str, step_ms: int) -> None:
        self.waits = waits
        self.notes = notes
        self.name = name
        self.rng = random.Random(name)
        self.numbers = 0
        self.step_ms = step_ms  # in which keys come one further, about

    def key(self) -> str:
        return self.rng.choice(HOT_KEYS if self.rng.random() < 0.8 else KEYS)

    def offset(self, ahead: int) -> int:
        return self.waits.now_ms // self.step_ms + self.rng.randrange(ahead)

    def submit(self, count: int) -> None:
        rng = self.rng
        rows = []
        for _ in range(count):
            self.numbers += 1
            again = rng.random() < 0.02
            id = f"again-{rng.randrange(500)}" if again else f"{self.name}-{self.numbers}"
            needs = [(self.key(), self.offset(60)) for _ in range(rng.choice([1, 2, 3]))]
            timeout_ms = rng.choice([5, 50, 500, 5_000, 60_000])
            rows.append((id, needs, timeout_ms, rng.randint(1, len(needs))))
        answers = self.waits.submit_many(rows)
        self.notes.note(
            [
                ["submit", row[0], answer.at_ms]
                for row, answer in zip(rows, answers, strict=True)
                if answer.verdict == "accepted"
            ]
        )

    def signal(self, count: int) -> None:
        rows = [(self.key(), self.offset(40)) for _ in range(count)]
        answers = self.waits.signal_many(rows)
        self.notes.note(
            [
                ["signal", *row, answer.at_ms]
                for row, answer in zip(rows, answers, strict=True)
                if answer.verdict == "accepted"
            ]
        )

    def cancel(self) -> None:
        id = f"{self.name}-{max(1, self.numbers - self.rng.randrange(100))}"
        answer = self.waits.cancel(id)
        if answer.verdict == "accepted":
            self.notes.note([["cancel", id, answer.at_ms]])

    def anything(self, count: int) -> None:
        kind = self.rng.random()
        if kind < 0.4:
            self.submit(count)
        elif kind < 0.8:
            self.signal(count)
        else:
            self.cancel()


def live(folder: Path, seed: str) -> None:
    """Four threads, until the process is killed."""
    snapshots._JOURNAL_BYTES_LEAST = 50_000  # snapshots on the way
    waits = durable.Purgatory(folder / "waits.db", forget_keys_after_ms=200, retention_ms=500)
    history.Recorder(waits, folder / "history", every_ms=10, part_rows=2_000).start()
    notes = Notes(folder / "notes")

    def run(client: Client) -> None:
        while True:
            client.anything(client.rng.choice([1, 5, 50]))

    threads = [
        threading.Thread(target=run, args=(Client(waits, notes, f"{seed}.{n}", 20),), daemon=True)
        for n in range(4)
    ]
    for thread in threads:
        thread.start()
    print("ready", flush=True)
    threads[0].join()


def hour(folder: Path, seed: str, minutes: int) -> None:
    """So much simulated time, in small steps; where it was killed it goes on."""
    snapshots._JOURNAL_BYTES_LEAST = 1 << 20
    clock = ManualClock(START_MS)
    waits = durable.Purgatory(
        folder / "waits.db",
        clock=clock,
        forget_keys_after_ms=120_000,
        retention_ms=300_000,
        connect=Unsynced,
    )
    recorder = history.Recorder(waits, folder / "history", part_rows=50_000)
    recorder.start()
    client = Client(waits, Notes(folder / "notes"), seed, 1_000)
    rng = client.rng
    print("ready", flush=True)
    flushed_ms = waits.now_ms
    while waits.now_ms < START_MS + minutes * 60_000:
        clock.advance(rng.choice([1, 5, 20, 100, 200]))
        client.anything(rng.choice([1, 5, 20]))
        if waits.now_ms > flushed_ms + 10_000:
            recorder.flush()
            flushed_ms = waits.now_ms
    while len(waits):
        clock.advance(10_000)
    clock.advance(1)
    recorder.close()
    waits.close()
    print("over", flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "live":
        live(Path(sys.argv[2]), sys.argv[3])
    else:
        hour(Path(sys.argv[2]), sys.argv[3], int(sys.argv[4]))
