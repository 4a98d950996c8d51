"""Durable waits: operations that wait in a file, and survive the process and the machine."""

from sojourn.durable.aio import AsyncPurgatory as AsyncPurgatory  # the same verbs, awaited
from sojourn.durable.aio import AsyncSubscription as AsyncSubscription  # as Subscription, awaited
from sojourn.durable.answers import Answer as Answer  # what became of one command
from sojourn.durable.answers import JournalBatch as JournalBatch  # what it took and ended
from sojourn.durable.answers import News as News  # what a batch brought, for listeners
from sojourn.durable.answers import Operation as Operation  # an operation, waiting or ended
from sojourn.durable.machine import Machine as Machine  # the state, for `Purgatory.inspect`
from sojourn.durable.purgatory import Purgatory as Purgatory  # operations waiting in a file
from sojourn.durable.subscription import Subscription as Subscription  # a reader with a position
