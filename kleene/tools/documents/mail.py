"""Mail messages (.eml): the message, then each attachment that can be read."""

from __future__ import annotations

import email
import email.policy
from collections.abc import Callable, Iterator
from email.message import EmailMessage, MIMEPart

from kleene.planner.errors import ToolError
from kleene.tools.documents.base import Page, Source, Table, explained
from kleene.tools.documents.kinds import Kind

HEADERS = ("From", "To", "Cc", "Date", "Subject")


def pages(source: Source, read: Callable[[Source], str]) -> Iterator[Page]:
    """The message with its headers, titled by its subject, and a page for each attachment, titled by its name. ``read`` reads a document."""
    with explained(source, Kind.EML.value):
        message = _message(source)
        headers = [f"{name}: {value}" for name in HEADERS if (value := _header(message, name))]
        body = _body(message, source, read)
        yield Page(1, _header(message, "Subject") or None, "\n".join(headers) + (f"\n\n{body}" if body else ""))
        for number, (name, inner, kind) in enumerate(_attachments(message, source), 2):
            yield Page(number, name, _attachment(inner, kind, read))


def tables(source: Source, read: Callable[[Source], Iterator[Table]]) -> Iterator[Table]:
    """The tables of the attachments, named by these: ``rates.csv``, ``prices.xlsx: Rebates``. ``read`` reads those of a document."""
    with explained(source, Kind.EML.value):
        for name, inner, _ in _attachments(_message(source), source):
            try:
                for number, table in enumerate(read(inner), 1):
                    yield Table(
                        name if table.name == "table 1" and number == 1 else f"{name}: {table.name}", table.rows
                    )
            except ToolError as error:
                if error.kind != "unsupported":
                    raise


def _message(source: Source) -> EmailMessage:
    message = email.message_from_bytes(source.bytes(), policy=email.policy.default)
    if not message.keys():
        raise ToolError(f"{source.name} cannot be read as a mail: it has no headers", kind="unsupported")
    return message


def _attachments(message: EmailMessage, source: Source) -> Iterator[tuple[str, Source, str]]:
    """Name, content and content type of each."""
    for number, part in enumerate(message.iter_attachments(), 1):
        source.check()
        kind = part.get_content_type()
        name = part.get_filename() or f"attachment {number}"
        if kind == "message/rfc822":
            forwarded = part.get_content()
            data = forwarded.as_bytes() if isinstance(forwarded, EmailMessage) else b""
            shown = name if name.endswith(".eml") else f"{name}.eml"
        else:
            data, shown = _payload(part), name
        yield name, Source.of(f"{source.name}: {shown}", data, source.check, source.depth + 1), kind


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())
    except Exception:  # the header parser of the standard library raises anything over broken addresses
        return " ".join(str(dict(message.raw_items()).get(name, "")).split())


def _body(message: EmailMessage, source: Source, read: Callable[[Source], str]) -> str:
    part = message.get_body(preferencelist=("plain", "html"))
    if part is None:
        return ""
    if part.get_content_type() == "text/html":
        return read(Source.of(f"{source.name}: the message.html", _payload(part), source.check, source.depth + 1))
    return _decoded(part).strip()


def _decoded(part: MIMEPart) -> str:
    try:
        return str(part.get_content()).replace("\r\n", "\n")
    except (LookupError, ValueError):  # a character set that nobody knows
        return _payload(part).decode("utf-8", "replace").replace("\r\n", "\n")


def _attachment(inner: Source, kind: str, read: Callable[[Source], str]) -> str:
    try:
        return read(inner)
    except ToolError as error:
        if error.kind != "unsupported":
            raise
        return f"({kind}, {len(inner.bytes()):,} bytes: {error.message})"


def _payload(part: MIMEPart) -> bytes:
    data = part.get_payload(decode=True)
    return data if isinstance(data, bytes) else b""
