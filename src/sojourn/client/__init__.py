"""The client of `sojourn serve`: the verbs of `durable.Purgatory`, over HTTP."""

from sojourn.client.aio import AsyncClient as AsyncClient  # for the tasks of an event loop
from sojourn.client.aio import AsyncSubscription as AsyncSubscription  # as Subscription, awaited
from sojourn.client.client import Client as Client  # for threads
from sojourn.client.client import Subscription as Subscription  # a reader with a kept position
