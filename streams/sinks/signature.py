"""Signatures of webhook requests."""

from __future__ import annotations

import hashlib
import hmac


def signed_headers(secret: str, body: bytes, *, at: float) -> dict[str, str]:
    """Return the headers of a JSON request with an `sha256=` HMAC over `<time>.<body>`, against replays.

    Args:
        secret: The shared secret.
        at: Seconds since the epoch.
    """
    moment = str(int(at))
    signature = hmac.new(secret.encode(), f"{moment}.".encode() + body, hashlib.sha256).hexdigest()
    return {
        "Content-Type": "application/json",
        "X-Judgestream-Timestamp": moment,
        "X-Judgestream-Signature": f"sha256={signature}",
    }
