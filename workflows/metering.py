"""Metrics of workflows: by Temporal's meter, which is silent while a history is replayed (design section 10)."""

from collections.abc import Mapping
from datetime import datetime

from temporalio import workflow

with workflow.unsafe.imports_passed_through():
    from domain.metrics import Metric


def count(metric: Metric, labels: Mapping[str, str]) -> None:
    counter = workflow.metric_meter().create_counter(metric.name, metric.meaning, metric.unit)
    counter.add(1, labels)


def since(began: datetime, metric: Metric, labels: Mapping[str, str] | None = None) -> None:
    """The seconds until now; clocks of two hosts may disagree, so never less than 0."""
    seconds = max(0.0, (workflow.now() - began).total_seconds())
    histogram = workflow.metric_meter().create_histogram_float(metric.name, metric.meaning, metric.unit)
    histogram.record(seconds, labels)
