"""Spans for OpenTelemetry (extra ``kleene[otel]``), by its conventions for generative AI. Nothing here is imported while it is off."""

from __future__ import annotations
