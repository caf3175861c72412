"""Which inputs hold a secret and are not kept in the history."""

from __future__ import annotations

import re

_SECRET = re.compile(
    r"""
      \b(create|alter)\s+(or\s+replace\s+)?((persistent|temporary|temp)\s+)?secret\b
    | \badd_parquet_key\b
    | [a-z][a-z0-9+.-]*://[^\s/'":@]*:[^\s/'"@]+@                               # a password in a URL
    | (?<![a-z])(api[_-]?key|auth[_-]?token|access[_-]?key|secret\w*|passw(or)?d|pwd)["']?\s*(=|:=|=>|:|\bto\b)\s*[^\s,;)]   # given a value
    | (?<![a-z])\w*(key|token)["']?\s*(=|:=|=>|:|\bto\b)\s*\\?['"$][^'"]                     # an ordinary column has such a name, too
    | \b(sk|pk|rk|ghp|gho|ghs|github_pat|glpat|xox[abprs]|hf|AKIA|ASIA|AIza)[-_]?[A-Za-z0-9_-]{16,}       # keys by their form
    | \bbearer\s+[A-Za-z0-9._~+/-]{16,}
    | -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----
    | \b(password|encryption_key)\s+['"]
    """,
    re.IGNORECASE | re.VERBOSE,
)


def holds_secret(text: str) -> bool:
    """Whether a text looks as if it held a key, a password or a token. Rather once too often: what is not kept can be typed again.

    >>> holds_secret("CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')"), holds_secret("SELECT max_tokens FROM t WHERE token_count = 3")
    (True, False)
    >>> holds_secret("SET s3_secret_access_key = 'x'"), holds_secret("SELECT 1 FROM a JOIN b ON a.order_key = b.order_key")
    (True, False)
    """
    return _SECRET.search(text) is not None
