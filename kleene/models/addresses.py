"""Where providers are found when nobody says otherwise."""

from __future__ import annotations

ANTHROPIC_URL = "https://api.anthropic.com"
OPENAI_URL = "https://api.openai.com/v1"
