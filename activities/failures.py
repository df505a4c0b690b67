"""Errors of activities as Temporal sees them: one place (design section 7)."""

import errno
from typing import Any

from temporalio.exceptions import ApplicationError
from temporalio.worker import ActivityInboundInterceptor, ExecuteActivityInput, Interceptor

from domain.errors import CcwebError, ErrorCode


class FailureInterceptor(Interceptor):
    """Turns each `CcwebError` into an ApplicationError whose type is its code."""

    def intercept_activity(self, next: ActivityInboundInterceptor) -> ActivityInboundInterceptor:
        return _Failures(super().intercept_activity(next))


class _Failures(ActivityInboundInterceptor):
    async def execute_activity(self, input: ExecuteActivityInput) -> Any:
        try:
            return await self.next.execute_activity(input)
        except CcwebError as error:
            raise application_error(error) from error
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            raise application_error(CcwebError(ErrorCode.DISK_FULL, str(error.filename or ""))) from error


def application_error(error: CcwebError) -> ApplicationError:
    """The code is the type, so that policies and workflows can tell errors apart."""
    return ApplicationError(error.detail or str(error.code), type=str(error.code), non_retryable=not error.retryable)
