"""What `ccweb doctor` found: one line for each thing that must be right."""

from collections.abc import Iterable
from typing import Literal

from operations.records import View

Verdict = Literal["ok", "warn", "fail", "skip"]


class Finding(View):
    """`fix` says what to do; empty when all is well. `skip`: it could not be looked at from here."""

    area: str
    check: str
    verdict: Verdict
    detail: str
    fix: str = ""


def ok(area: str, check: str, detail: str) -> Finding:
    return Finding(area=area, check=check, verdict="ok", detail=detail)


def warn(area: str, check: str, detail: str, fix: str) -> Finding:
    return Finding(area=area, check=check, verdict="warn", detail=detail, fix=fix)


def fail(area: str, check: str, detail: str, fix: str) -> Finding:
    return Finding(area=area, check=check, verdict="fail", detail=detail, fix=fix)


def skip(area: str, check: str, detail: str, fix: str = "") -> Finding:
    return Finding(area=area, check=check, verdict="skip", detail=detail, fix=fix)


def healthy(findings: Iterable[Finding]) -> bool:
    return all(finding.verdict != "fail" for finding in findings)
