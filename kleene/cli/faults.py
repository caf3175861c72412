"""What is said about errors that are not Kleene's own."""

from __future__ import annotations


def described(error: Exception) -> str:
    """What is said about an error that is not Kleene's own: DuckDB's and the system's in their words, a fault of ours as what it is."""
    if type(error).__module__.partition(".")[0] in ("duckdb", "_duckdb"):
        return f"error: {error}"
    if isinstance(error, OSError):
        name = f": {error.filename}" if error.filename else ""
        return f"error: {error.strerror or error}{name}"
    return f"error: {type(error).__name__}: {error}\nhint: this is a fault of Kleene's; --log debug shows where it happened"
