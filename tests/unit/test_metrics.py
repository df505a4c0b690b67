"""What `/metrics` shows: the names of the catalogue, and the labels that were given."""

import functools
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
# A process of its own: a meter provider and a Temporal runtime are set once per process.
_RECORD_ALL = """
import json
import re
import metrics
from domain.metrics import METRICS, LEASE_WAIT
from temporalio.runtime import Runtime

pump = metrics.configure("test")
for one in METRICS:
    labels = {name: "x" for name in one.labels}
    metrics.add(one, labels) if one.kind == "counter" else metrics.record(one, 1.5, labels)
meter = Runtime.default().metric_meter
for number in range(50):
    meter.create_histogram_float(LEASE_WAIT.name, LEASE_WAIT.meaning, LEASE_WAIT.unit).record(2, {"n": str(number)})
    pump.once()
print(json.dumps([metrics.exposition().decode(), {one.exported: one.labels for one in METRICS}]))
"""


@functools.cache
def _recorded() -> tuple[str, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", _RECORD_ALL], cwd=ROOT, capture_output=True, text=True, check=True
    )
    text, names = json.loads(done.stdout)
    return text, names


def test_every_metric_is_exported_under_the_name_that_the_catalogue_says_with_its_labels_and_no_others() -> None:
    text, names = _recorded()
    families = {line.split()[2] for line in text.splitlines() if line.startswith("# TYPE")}
    assert names.keys() <= families
    unlabelled = [
        name for name, labels in names.items() if labels and f'{labels[0].replace(".", "_")}="x"' not in text
    ]
    assert not unlabelled


def test_what_workflows_record_keeps_its_own_labels_and_our_buckets() -> None:
    text, _ = _recorded()
    counts = [line for line in text.splitlines() if re.match(r'ccweb_lease_wait_seconds_count{n="\d', line)]
    assert len(counts) == 50
    assert all(line.endswith(" 1.0") for line in counts)
    assert 'ccweb_lease_wait_seconds_bucket{le="14400",n="7"} 1.0' in text
