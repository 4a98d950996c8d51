"""The application: Starlette's router behind the gate.

`app.state.service` is the `Service`, for every endpoint (`request.app.state.service`):

    .purgatory          the durable.Purgatory
    .settings           what the service was started with (settings.py)
    .started_ms         when it started, in the purgatory's time
    .subscribers()      the subscriptions, with position, how far behind, and webhook
    .ask(question)      awaits `purgatory.inspect(question)`
    .find(id)           awaits `purgatory.get(id)`, off the loop
    .sender.send(r)     awaits the answers to a `durable.requests.Request`
    .is_closing         whether the service is on its way out

A new endpoint is a function `async def name(request, **parameters)` that returns an ASGI
application, such as a `replies.Reply` or a response of Starlette's; it raises `errors.Refusal` to
refuse; and it is one line in routes.py.
"""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.types import ASGIApp

from sojourn.service.gate import Gate
from sojourn.service.routes import routes
from sojourn.service.service import Service


class App(Starlette):
    """Starlette, with the gate in place of its middleware."""

    def __init__(self, service: Service) -> None:
        super().__init__(routes=routes())
        self.state.service = service
        self.router.redirect_slashes = False

    def build_middleware_stack(self) -> ASGIApp:
        return Gate(self.router, self.state.service)


def create_app(service: Service) -> App:
    """The application of a service that has been started."""
    return App(service)
