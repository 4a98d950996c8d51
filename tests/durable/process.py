"""A process that uses a durable purgatory until it is killed, and notes what it was told.

    python -m tests.durable.process FILE NOTES SEED

Each note is one line of JSON, appended only after the call has returned.
"""

from __future__ import annotations

import json
import os
import random
import sys
import threading

from sojourn import durable
from sojourn.durable import snapshots

CLIENTS = 4


class Notes:
    """A file to which lines are appended in one step each."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)

    def note(self, *row: object) -> None:
        os.write(self._file, json.dumps(row).encode() + b"\n")


def fields(outcome: durable.Operation) -> list[object]:
    """All that is told of it, its number last."""
    return [
        outcome.id,
        outcome.status,
        outcome.submitted_ms,
        outcome.deadline_ms,
        outcome.at_ms,
        outcome.by_key,
        outcome.needed,
        [list(requirement) for requirement in outcome.requires],
        outcome.number,
    ]


def client(waits: durable.Purgatory, notes: Notes, name: str, seed: str) -> None:
    rng = random.Random(seed)
    n = 0
    while True:
        n += 1
        kind = rng.random()
        if kind < 0.6:
            rows = [
                (
                    f"{name}-{n}-{m}",
                    [(f"k{rng.randrange(20)}", rng.randrange(1, 2_000)) for _ in range(2)],
                    rng.choice([0, 5, 50, 500, 5_000, 50_000]),
                    rng.choice([1, 2]),
                )
                for m in range(rng.choice([1, 1, 20]))
            ]
            for answer in waits.submit_many(rows):
                assert answer.operation is not None, answer
                notes.note("submit", answer.operation.id, answer.at_ms)
        elif kind < 0.9:
            key, offset = f"k{rng.randrange(20)}", rng.randrange(1, 2_000)
            notes.note("signal", key, offset, waits.signal(key, offset).at_ms)
        else:
            id = f"{name}-{rng.randrange(1, n + 1)}-0"
            answer = waits.cancel(id)
            notes.note("cancel", id, answer.at_ms, answer.verdict)


def reader(waits: durable.Purgatory, notes: Notes) -> None:
    subscription = waits.subscription("notes")
    while True:
        outcomes = subscription.read(100, wait_ms=1_000)
        for outcome in outcomes:
            notes.note("outcome", *fields(outcome))
        subscription.commit()
        notes.note("position", subscription.position)


def main() -> None:
    path, notes_path, seed = sys.argv[1:]
    snapshots._JOURNAL_BYTES_LEAST = 50_000
    snapshots._PIECE_OPERATIONS = 100
    notes = Notes(notes_path)
    waits = durable.Purgatory(path)
    threads = [
        threading.Thread(target=client, args=(waits, notes, f"{seed}.{n}", f"{seed}.{n}"))
        for n in range(CLIENTS)
    ]
    threads.append(threading.Thread(target=reader, args=(waits, notes)))
    for thread in threads:
        thread.daemon = True
        thread.start()
    print("ready", flush=True)
    threads[0].join()


if __name__ == "__main__":
    main()
