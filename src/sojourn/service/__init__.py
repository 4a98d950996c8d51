"""The service: durable waits behind HTTP and JSON. Needs the extra `service`."""

from sojourn.service.app import create_app as create_app  # the ASGI application of a service
from sojourn.service.limits import Limits as Limits  # how much of everything it takes
from sojourn.service.server import serve as serve  # runs a service until it is told to stop
from sojourn.service.service import Service as Service  # a durable purgatory, to be served
from sojourn.service.settings import Settings as Settings  # what it is started with
from sojourn.service.tokens import Tokens as Tokens  # who may do what
