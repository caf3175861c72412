"""Whether spans are made, and who takes them: a provider that was given, the program's own, or an OTLP exporter of ours."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from kleene.planner.errors import ConfigError

if TYPE_CHECKING:
    from kleene.otel.spans import Spans

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
INSTALL = "pip install 'kleene[otel]'"


def open_spans(
    otel: Any, environ: Mapping[str, str], may_show_text: Callable[[], bool], say: Callable[[str], None]
) -> Spans | None:
    """A subscriber that makes spans, or None where they are off.

    ``otel``: None is on where the environment names an OTLP endpoint; False is off; True is on; anything else is a tracer provider to use.
    ``may_show_text`` tells whether the trace may hold texts now; ``say`` is told why spans that the environment asks for are not made.
    Raises ``ConfigError`` where they are asked for by name and OpenTelemetry is not installed.
    """
    if otel is False or environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
        return None
    if otel is None and (not _endpoint(environ) or environ.get("OTEL_TRACES_EXPORTER", "").strip().lower() == "none"):
        return None
    if importlib.util.find_spec("opentelemetry") is None:
        if otel is None:
            say(f"{_endpoint(environ)} is set, and OpenTelemetry is not installed: no spans are sent ({INSTALL})")
            return None
        raise ConfigError("otel=True needs OpenTelemetry", hint=INSTALL)
    from kleene.otel.spans import Spans, captures_content

    given = otel if otel not in (None, True) else None
    if given is not None and not hasattr(given, "get_tracer"):
        raise ConfigError(
            f"otel is {type(given).__name__}", hint="give True, False or an opentelemetry.sdk.trace.TracerProvider"
        )
    provider, close = (given, None) if given is not None else _provider(environ, say)
    captures = captures_content(environ)
    return Spans(provider, lambda: captures and may_show_text(), close)


def _endpoint(environ: Mapping[str, str]) -> str | None:
    return next((name for name in ENDPOINTS if environ.get(name)), None)


def _provider(environ: Mapping[str, str], say: Callable[[str], None]) -> tuple[Any, Callable[[], None] | None]:
    """The program's provider where it set one. Else, where an endpoint is named, one of our own, which is shut down with the engine: the
    program's stays for the program to set."""
    from opentelemetry import trace

    if not isinstance(trace.get_tracer_provider(), trace.ProxyTracerProvider) or not _endpoint(environ):
        return trace.get_tracer_provider(), None
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
    except ImportError:
        say(f"{_endpoint(environ)} is set, and the OTLP exporter is not installed: no spans are sent ({INSTALL})")
        return trace.get_tracer_provider(), None
    name = {} if environ.get("OTEL_SERVICE_NAME") else {"service.name": "kleene"}
    provider = TracerProvider(resource=Resource.create(name), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return provider, provider.shutdown
