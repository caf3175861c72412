"""Real documents, where they are at hand: each type against what is known to stand in it."""

from __future__ import annotations

from pathlib import Path

import pytest

from kleene.tools.standard import FILES, GREP, LINES, READ, READ_PAGES, READ_TABLE, SEARCH
from tests.kleene.tools.working import rows, work

DATA = Path(__file__).resolve().parents[4] / "shared" / "data"
TASKS = DATA / "harvey-lab" / "tasks"
SUPPLY = "corporate-ma/extract-supply-agreement-key-terms/documents"
SEVERANCE = "employment-labor/review-severance-package/scenario-01/documents"

pytestmark = pytest.mark.skipif(not TASKS.is_dir(), reason="needs the sample data")
for library in ("docx", "openpyxl", "pptx"):
    pytest.importorskip(library)


def text(path: str) -> str:
    ((found,),) = rows(READ, TASKS, path)
    return str(found)


def test_a_contract_with_tracked_changes() -> None:
    found = text(f"{SUPPLY}/supply-agreement.docx")
    assert found.startswith("# SUPPLY AGREEMENT\n\nThis Supply Agreement is made on 3 February 2025 between")
    assert "limited to two hundred per cent (200%) of the fees paid in the preceding twelve months, except" in found
    assert "- Opposing Counsel (2025-03-04) deleted: the fees paid in the preceding six months" in found
    assert "For eighteen (18) months the Employee will not work" in text(f"{SEVERANCE}/severance-agreement.docx")
    titles = [title for _, title, _ in rows(READ_PAGES, TASKS, f"{SUPPLY}/supply-agreement.docx")]
    assert titles[1:3] == ["1. Term", "2. Price"]


def test_a_price_list_disagrees_with_its_contract() -> None:
    def prices(path: str, sheet: str, column: str) -> dict[str, float]:
        found = [cells for _, _, cells in rows(READ_TABLE, TASKS, path, sheet)]
        return {cells["Part"]: float(cells[column]) for cells in found}

    schedule = prices(f"{SUPPLY}/pricing-schedule.xlsx", "Prices", "Unit price (USD)")
    contract = prices(f"{SUPPLY}/supply-agreement.docx", "table 1", "Unit price (USD)")
    assert schedule == {"Housing H-20": 41.5, "Impeller M-7": 18.75, "Flange F-3": 6.1}
    assert {part for part in schedule if schedule[part] != contract[part]} == {"Impeller M-7"}
    assert rows(READ_TABLE, TASKS, f"{SEVERANCE}/payroll.xlsx")[0][2]["Hire date"] == "2014-06-02"


def test_a_deck_and_mails() -> None:
    deck = rows(READ_PAGES, TASKS, f"{SEVERANCE}/board-deck.pptx")
    assert [title for _, title, _ in deck] == ["Reduction in force: summary", "Severance policy", "Timeline"]
    assert "Age 40 and over: 19 of 34" in deck[0][2]
    mail = rows(READ_PAGES, TASKS, f"{SUPPLY}/gc-request.eml")
    assert [title for _, title, _ in mail] == ["Key terms needed before Friday", "volumes.csv"]
    assert "whether our pending sale to Corvid Partners trips the assignment clause" in mail[0][2]
    forecasts = [cells for _, _, cells in rows(READ_TABLE, TASKS, f"{SUPPLY}/gc-request.eml", "volumes.csv")]
    assert forecasts[1] == {"part": "Impeller M-7", "forecast_2025": "17000"}


def test_every_document_is_read() -> None:
    documents = [row[0] for row in rows(FILES, DATA, "*.{docx,xlsx,pptx,eml,csv,html,pdf}")]
    assert len(documents) >= 12
    for path in documents:
        assert len(rows(READ, DATA, path)[0][0]) > 20, path


def test_a_book_is_looked_through() -> None:
    books = [row[0] for row in rows(FILES, DATA, "corpus/**") if row[3] == "file" and row[1] > 1_000_000]
    assert books
    found = rows(GREP, DATA, r"(?i)faction.{0,40}\bliberty\b", "corpus/**")
    assert found
    path, number, line = found[0]
    assert rows(LINES, DATA, path, number, number) == [(number, line)]


def test_search_finds_the_thread_about_the_non_compete() -> None:
    best = rows(SEARCH, work(TASKS), "non-compete consideration period", "*.eml", 1)
    assert [row[0] for row in best] == [f"{SEVERANCE}/hr-thread.eml"]
    assert "check the consideration period" in best[0][2]
