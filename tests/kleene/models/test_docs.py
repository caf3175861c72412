"""What docs/models.md shows can be used as it stands."""

from __future__ import annotations

import re
from pathlib import Path

from kleene.config import load_config
from kleene.models.build import aliases_of

PAGE = Path(__file__).resolve().parents[3] / "docs" / "models.md"


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE.read_text(encoding="utf-8"), re.S)


def test_the_configuration_of_the_page_loads(tmp_path: Path) -> None:
    assert len(blocks("toml")) == 2
    for number, block in enumerate(blocks("toml")):
        folder = tmp_path / str(number)
        folder.mkdir()
        (folder / "kleene.toml").write_text(block, encoding="utf-8")
        config = load_config(folder, environ={"HOME": str(tmp_path)})
        assert config.aliases or config.pricing
        assert config.warnings == ()
        if config.aliases:
            assert set(aliases_of(None, config)) == {"worker", "proxy", "embed", "careful"}
