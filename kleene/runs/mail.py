"""Messages between a session and its children, kept in the store."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from kleene.udfs.text import clean

if TYPE_CHECKING:
    from kleene.store import Store


class Mail:
    """Nothing is open between calls. Its methods may be called from any thread."""

    def __init__(self, store: Store):
        self._store = store
        self._lock = threading.Lock()

    def send(self, sender: str, receiver: str, text: str) -> None:
        with self._lock, self._store.cursor() as cursor:
            cursor.execute(
                "INSERT INTO main.kleene_messages VALUES ($1, $2, $3, make_timestamp(epoch_us(now()::TIMESTAMPTZ)))",
                [sender, receiver, clean(text)],
            )

    def received(self, session: str) -> list[tuple[str, str, str]]:
        """Sender, time and text, the oldest first."""
        with self._lock, self._store.cursor() as cursor:
            return cursor.execute(
                "SELECT sender, recorded_at::VARCHAR, text FROM main.kleene_messages WHERE receiver = $1 ORDER BY recorded_at",
                [session],
            ).fetchall()
