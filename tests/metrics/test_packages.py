"""The packages of Prometheus and OpenTelemetry: their defaults, and what is said without them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.conftest import FreshPython


def test_the_default_registry_and_meter_are_those_of_the_packages(
    fresh_python: FreshPython,
) -> None:
    ran = fresh_python("""
from opentelemetry.metrics import set_meter_provider
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from prometheus_client import REGISTRY
from sojourn import Purgatory
from sojourn.metrics import Collector

reader = InMemoryMetricReader()
set_meter_provider(MeterProvider([reader]))
purgatory = Purgatory("orders")
Collector(purgatory).register()
Collector(purgatory).observe()
print(REGISTRY.get_sample_value("sojourn_purgatory_delayed", {"purgatory": "orders"}))
print(reader.get_metrics_data().resource_metrics[0].scope_metrics[0].scope.name)
""")
    assert ran.stdout.split() == ["0", "sojourn"], ran.stderr


@pytest.mark.parametrize(
    ("package", "verb", "remedy"),
    [
        ("prometheus_client", "register", "prometheus-client.*pip install sojourn.metrics."),
        ("prometheus_client", "collect().__next__", "pip install sojourn.metrics."),
        ("opentelemetry", "observe", "opentelemetry-api.*pip install opentelemetry-api"),
    ],
)
def test_a_package_that_is_missing_is_named_with_the_remedy(
    fresh_python: FreshPython, package: str, verb: str, remedy: str
) -> None:
    ran = fresh_python(f"""
import sys
sys.modules["{package}"] = None
from sojourn import Purgatory
from sojourn.metrics import Collector

purgatory = Purgatory()
Collector(purgatory).{verb}()
""")
    assert ran.returncode == 1
    assert re.search(f"ImportError: .*{remedy}", ran.stderr), ran.stderr


def test_neither_package_is_imported_before_it_is_needed(fresh_python: FreshPython) -> None:
    ran = fresh_python("""
import sys
import sojourn, sojourn.metrics
sojourn.metrics.Collector(sojourn.Purgatory())
print([m for m in ("prometheus_client", "opentelemetry", "sojourn.kafka") if m in sys.modules])
""")
    assert ran.stdout.strip() == "[]", ran.stderr
