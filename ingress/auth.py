"""Which operator a call comes from, and whether their role allows it (design section 13)."""

from collections.abc import Awaitable, Callable
from typing import Annotated

from fastapi import Depends, Request
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer

from domain.errors import CcwebError, ErrorCode
from operations.operators import Operator, Operators, Role

_BEARER = HTTPBearer(auto_error=False, description="The token that `ccweb operator add` printed")


def allows(needed: Role) -> Callable[..., Awaitable[Operator]]:
    """A dependency that gives the calling operator.

    It raises CcwebError `unauthenticated` without a valid token, `forbidden` below the role `needed`.
    """

    async def operator(
        request: Request, given: Annotated[HTTPAuthorizationCredentials | None, Depends(_BEARER)]
    ) -> Operator:
        known: Operators = request.app.state.operators
        found = known.by_token(given.credentials) if given else None
        if found is None:
            raise CcwebError(ErrorCode.UNAUTHENTICATED)
        if found.role < needed:
            raise CcwebError(ErrorCode.FORBIDDEN, f"{found.name} is {found.role.name.lower()}")
        return found

    return operator
