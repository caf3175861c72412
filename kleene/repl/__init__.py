"""The prompt: statements and commands typed on a terminal, one concern a module. ``python -m kleene repl`` starts it.

``scan`` reads what is typed (also when it is unfinished); ``complete``, ``lexer``, ``relations`` and ``suggest`` rest on it. ``shell`` runs
statements on the engine of ``worker``; ``commands`` is the table of what begins with a backslash or a slash. Only ``prompt`` and ``lexer``
know prompt_toolkit.
"""

from __future__ import annotations
