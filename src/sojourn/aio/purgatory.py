"""The purgatory on an event loop."""
from __future__ import annotations
import sojourn.purgatory
from sojourn.aio.wait import checked_wait
from sojourn.aio.timer import Timer
class Purgatory:
    def __init__(self, name="purgatory", timer=None):
        self.timer = timer or Timer(name=name)
        self._sj_loop = self.timer._sj_loop
        self._sj_core = sojourn.purgatory.Purgatory(name, self.timer._sj_core)
    def wait(self, predicate=None, *, keys=None, requires=None, needed=None, timeout=None):
        return checked_wait(self._sj_loop, self._sj_core, predicate, keys, requires, needed, timeout)
    def check_and_complete(self, key):
        if self._sj_loop.is_here():
            return self._sj_core.check_and_complete(key)
    async def __aenter__(self): return self
    async def __aexit__(self, *_): pass
    @property
    def watched(self): return self._sj_core.watched
    @property
    def delayed(self): return self._sj_core.delayed
