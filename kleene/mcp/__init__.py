"""MCP, the Model Context Protocol, on both sides: the tools of other people's servers in SQL (``servers``), and Kleene as a server (``serving``).

Nothing here is imported before a server is configured; the library ``mcp`` (extra ``kleene[mcp]``) not before one is started.
"""

from __future__ import annotations
