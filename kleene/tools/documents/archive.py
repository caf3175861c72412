"""Office files are zip archives: what they would unpack to is bounded before a library unpacks them."""

from __future__ import annotations

import zipfile

from kleene.planner.errors import ToolError
from kleene.tools.documents.base import Source, explained
from kleene.tools.documents.kinds import encrypted

MAX_UNPACKED = 512 << 20
MAX_PART = 256 << 20
MAX_PARTS = 20_000


def checked(source: Source, kind: str) -> None:
    """Raises ``ToolError`` for what is no archive, is encrypted, or unpacks to more than the limits.

    The sizes are those that the archive declares: reading a part stops there, so that a false one is an error and not a bomb.
    """
    with explained(source, kind), zipfile.ZipFile(source.stream) as archive:
        parts = archive.infolist()
        if any(part.flag_bits & 1 for part in parts):
            raise encrypted(source)
        total, largest = sum(p.file_size for p in parts), max((p.file_size for p in parts), default=0)
        if len(parts) > MAX_PARTS or total > MAX_UNPACKED or largest > MAX_PART:
            raise ToolError(f"{source.name} unpacks to {total:,} bytes in {len(parts):,} parts", kind="too large")
    source.stream.seek(0)
