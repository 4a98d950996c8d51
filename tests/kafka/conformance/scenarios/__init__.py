"""What is asked: one file a noun, one function a scenario, each on a cluster of its own."""

from __future__ import annotations

import importlib
import pkgutil

from tests.kafka.conformance.scenarios.scenario import ALL as ALL
from tests.kafka.conformance.scenarios.scenario import Scenario as Scenario

for _module in pkgutil.iter_modules(__path__):
    importlib.import_module(f"{__name__}.{_module.name}")
