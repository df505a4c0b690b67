"""Signs bodies as Gitea does."""

import hashlib
import hmac


def signed_headers(body: bytes, secret: str, more: dict[str, str] | None = None) -> dict[str, str]:
    """Headers of a JSON delivery of `body`, lower-case; `more` wins."""
    digest = hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    return {
        "content-type": "application/json",
        "x-gitea-signature": digest,
        "x-hub-signature-256": f"sha256={digest}",
        **(more or {}),
    }
