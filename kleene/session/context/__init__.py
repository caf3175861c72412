"""Loads what a session works on: texts into ``ctx``, data files into tables of their own, handed over as Arrow record batches."""

from __future__ import annotations

from kleene.session.context.feed import Feed
from kleene.session.context.load import Inline, load_context, text_feed

__all__ = ["Feed", "Inline", "load_context", "text_feed"]
