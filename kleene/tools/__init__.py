"""Tools: what SQL can do in a workspace besides asking a model. Each is data (``Tool``) and a function over ``Work``; none knows the engine."""

from __future__ import annotations

from kleene.tools.asking import ask
from kleene.tools.base import Limits, Tool, Work
from kleene.tools.chunking import CHUNKS
from kleene.tools.git import GIT_BLAME, GIT_DIFF, GIT_LOG
from kleene.tools.index import SearchIndex
from kleene.tools.jail import Jail
from kleene.tools.lookups import ENV, SKILL
from kleene.tools.reading import FILES, GREP, LINES
from kleene.tools.reading_documents import READ, READ_PAGES, READ_TABLE
from kleene.tools.searching import SEARCH

__all__ = ["READ_TOOLS", "Jail", "Limits", "SearchIndex", "Tool", "Work", "ask"]

READ_TOOLS = (
    *(FILES, LINES, READ, READ_PAGES, READ_TABLE),
    *(GREP, SEARCH, CHUNKS),
    *(ENV, SKILL),
    *(GIT_LOG, GIT_DIFF, GIT_BLAME),
)
"""The tools that change nothing."""
