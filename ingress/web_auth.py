"""Sign-in to the operators' pages: a token typed once, or Gitea's OIDC, becomes a signed cookie (design section 13).

The cookie names the operator and a piece of the token's hash: an operator who is removed, or gets another token,
is signed out at once. The role is read from the operators file at each request, never from the cookie.
"""

import hmac
import os
import secrets
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from itsdangerous import BadSignature, URLSafeTimedSerializer
from starlette.requests import Request
from starlette.responses import Response

from domain.errors import CcwebError, ErrorCode
from operations.operators import Operator, Operators, Role

COOKIE = "ccweb_session"
SECRET_FILE = "web-secret"  # noqa: S105 - a file's name in the folder that the sandbox must not read
SESSION_SECONDS = 12 * 3600
_HASH_CHARS = 24


@dataclass(frozen=True, slots=True)
class Session:
    """Who is signed in; `csrf` stands in every form of this session."""

    operator: Operator
    csrf: str

    def may(self, role: Role) -> bool:
        return self.operator.role >= role


class Sessions:
    """Makes and reads session cookies with this host's own secret."""

    def __init__(self, secret_dir: Path, operators: Operators, *, secure: bool) -> None:
        self.secret = _secret(secret_dir / SECRET_FILE)
        self._operators = operators
        self._secure = secure
        self._signer = URLSafeTimedSerializer(self.secret, salt="ccweb session")

    def by_token(self, token: str) -> Operator | None:
        return self._operators.by_token(token.strip())

    def by_name(self, name: str) -> Operator | None:
        """The operator of a Gitea login, which Gitea compares without case."""
        return next((one for one in self._operators.all() if one.name == name.lower()), None)

    def sign_in(self, response: Response, operator: Operator, *, secure: bool) -> None:
        """Sets the cookie; `secure` when the request came by https."""
        mark = operator.token_hash[-_HASH_CHARS:]
        value = self._signer.dumps([operator.name, mark, secrets.token_urlsafe(24)])
        response.set_cookie(
            COOKIE, str(value), max_age=SESSION_SECONDS, httponly=True, samesite="strict", path="/",
            secure=secure or self._secure,
        )  # fmt: skip

    def of(self, request: Request) -> Session | None:
        """The session of a request; None when there is none, it expired, or the operator is no longer known."""
        try:
            name, mark, csrf = self._signer.loads(request.cookies.get(COOKIE, ""), max_age=SESSION_SECONDS)
        except (BadSignature, ValueError, TypeError):
            return None
        found = self.by_name(name)
        if found is None or not hmac.compare_digest(found.token_hash[-_HASH_CHARS:], mark):
            return None
        return Session(found, csrf)


def must_be_ours(request: Request) -> None:
    """A form that another site sends is refused, also one without a session (sign-in).

    Raises:
        CcwebError: `forbidden`.
    """
    site = request.headers.get("sec-fetch-site")
    origin = request.headers.get("origin")
    if site not in {None, "same-origin", "none"}:
        raise CcwebError(ErrorCode.FORBIDDEN, "the form was sent by another site")
    if site is None and origin is not None and urlsplit(origin).netloc != request.headers.get("host"):
        raise CcwebError(ErrorCode.FORBIDDEN, "the form was sent by another site")


def must_match(session: Session, csrf: str) -> None:
    """Raises CcwebError `forbidden` unless the form was made for this very session."""
    if not hmac.compare_digest(session.csrf.encode(), csrf.encode()):
        raise CcwebError(ErrorCode.FORBIDDEN, "the form is stale; load the page again")


def _secret(path: Path) -> str:
    """This host's secret, made once; two processes that make it at once agree on one."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    fresh = path.with_name(f".{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    if not path.exists():
        descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_urlsafe(48))
        try:
            path.hardlink_to(fresh)
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text(encoding="ascii")
