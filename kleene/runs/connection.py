"""A session's connection: each write is marked, within its own transaction, in the session's journal."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import duckdb

from kleene.connection import Connection, Fetched, Params

Mark = Callable[[duckdb.DuckDBPyConnection, Fetched], None]


class JournalledConnection(Connection):
    """Within ``marking`` a statement that is no query commits together with its mark."""

    def __init__(self, con: duckdb.DuckDBPyConnection):
        super().__init__(con)
        self._journal_mark: Mark | None = None
        self._begun = False
        self._last = Fetched()

    @contextmanager
    def marking(self, mark: Mark) -> Iterator[None]:
        """For the time of one write."""
        self._journal_mark = mark
        try:
            yield
        finally:
            self._journal_mark = None

    def fetch(self, sql: str, params: Params = None, *, query: bool = False) -> Fetched:
        if self._journal_mark is None or query or self._begun:
            self._last = super().fetch(sql, params, query=query)
            return self._last
        self.begin()
        try:
            self._last = super().fetch(sql, params)
            self.commit()
        except BaseException:
            self.rollback()
            raise
        return self._last

    def begin(self) -> None:
        super().begin()
        self._begun = True

    def commit(self) -> None:
        if self._journal_mark is not None:
            self._journal_mark(self.con, self._last)
        self._begun = False
        super().commit()

    def rollback(self) -> None:
        self._begun = False
        super().rollback()
