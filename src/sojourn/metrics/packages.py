"""Prometheus and OpenTelemetry, imported when they are needed: either may be missing."""

from __future__ import annotations

from typing import Any


def prometheus() -> Any:
    try:
        import prometheus_client
        import prometheus_client.core
    except ImportError as error:
        raise ImportError(
            "Collector.register needs prometheus-client, which is not installed; "
            "pip install sojourn[metrics]",
            name=error.name,
        ) from error
    return prometheus_client


def opentelemetry() -> Any:
    try:
        from opentelemetry import metrics
    except ImportError as error:
        raise ImportError(
            "Collector.observe needs opentelemetry-api, which is not installed; "
            "pip install opentelemetry-api",
            name=error.name,
        ) from error
    return metrics
