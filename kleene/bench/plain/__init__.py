"""Mode ``plain``: a tool-calling agent over the same models, tools, budget and turn cap, to be measured against.

It is made as good as such agents are: native tool calling with several calls at once, a context in the prompt where it fits and in a file and a
table where it does not, DuckDB without model functions for sums, a fresh model for a piece of text that is too long to read oneself, results
cut with what is left out said, and old results dropped, then summed up, when the conversation outgrows the window.
"""

from __future__ import annotations

from kleene.bench.plain.agent import Done, Job, solve

__all__ = ["Done", "Job", "solve"]
