"""PDF, office files, mails and HTML as contexts."""

from __future__ import annotations

import datetime as dt
from pathlib import Path

import duckdb
import pytest

from kleene.planner.errors import ConfigError
from kleene.session.context import Feed, load_context
from tests.kleene.tools.working import write

for library in ("pypdf", "docx", "openpyxl", "pptx", "markdownify", "fpdf"):
    pytest.importorskip(library)

from tests.kleene.tools import making  # noqa: E402 - it imports what may be missing


def read(feed: Feed) -> list[tuple[object, ...]]:
    connection = duckdb.connect()
    connection.register("incoming", feed.reader())
    return connection.execute("SELECT * FROM incoming").fetchall()


def ctx(root: Path, *names: str) -> list[tuple[object, ...]]:
    return read(load_context([root / name for name in names])[0])


def test_a_document_is_paragraphs_with_where_they_stand(tmp_path: Path) -> None:
    write(tmp_path, {"a.pdf": making.pdf(["One", "Two\nlines"]), "a.pptx": making.slides(), "a.html": making.HTML})
    pdf = "a.pdf"
    assert ctx(tmp_path, "a.pdf") == [(1, "One", f"{pdf}, page 1"), (2, "Two\nlines", f"{pdf}, page 2")]
    assert ctx(tmp_path, "a.pptx")[0] == (1, "Plan", "a.pptx, slide 1")
    assert ctx(tmp_path, "a.html")[:2] == [(1, "# Rates", "a.html"), (2, "## Now", "a.html")]


def test_a_mail_is_its_message_and_attachments(tmp_path: Path) -> None:
    write(tmp_path, {"a.eml": making.mail(("rates.csv", b"a,b\n1,2\n"))})
    rows = ctx(tmp_path, "a.eml")
    assert [row[2] for row in rows] == ["a.eml"] * 3 + ["a.eml, rates.csv"]
    assert rows[-1][1] == "a,b\n1,2"


def test_a_workbook_is_text_and_typed_tables(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "price list.xlsx": making.workbook(making.PRICES),
            "one.xlsx": making.workbook({"S": [["a", "b"], [1, "x"], [2**70, None]]}),
        },
    )
    text, prices, rebates = load_context([tmp_path / "price list.xlsx"])
    assert [row[2] for row in read(text)] == [f"price list.xlsx, sheet {name}" for name in ("Prices", "Rebates")]
    assert (prices.name, rebates.name) == ("price_list_Prices", "price_list_Rebates")
    assert prices.schema.names == ["Part", "Unit price", "Since", "Sold", "Unit price_2", "F"]
    assert read(prices) == [
        ("Housing", 41.5, dt.datetime(2024, 3, 1), True, 3, "extra"),
        ("Impeller", 18.0, dt.datetime(2024, 3, 1, 14, 30), False, None, None),
    ]
    assert read(rebates) == [(0, "0.015"), (1_000_000, "=B2*2")]
    assert prices.source == "price list.xlsx, sheet Prices"
    (_, one) = load_context([tmp_path / "one.xlsx"])
    assert (one.name, len(read(one))) == ("one", 2)


def test_a_folder_of_documents_is_one_ctx_and_notes_what_is_broken(tmp_path: Path) -> None:
    write(
        tmp_path,
        {
            "a.docx": making.word(),
            "b/c.txt": "text",
            "broken.pdf": b"%PDF-1.7",
            "d.xlsx": making.workbook(making.PRICES),
            "old.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1",
        },
    )
    (feed,) = load_context([tmp_path])
    sources = list(dict.fromkeys(row[2] for row in read(feed)))
    assert sources == ["a.docx", "b/c.txt", "d.xlsx, sheet Prices", "d.xlsx, sheet Rebates"]
    assert feed.notes[0] == f"1 file of {tmp_path.name} is no text and not in ctx: old.doc"
    assert feed.notes[1].startswith("not in ctx: broken.pdf cannot be read as a PDF file: ")


def test_a_document_that_cannot_be_read_is_an_error(tmp_path: Path) -> None:
    write(
        tmp_path, {"broken.pdf": b"%PDF-1.7", "old.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1", "bad.xlsx": b"PK\x03\x04"}
    )
    (feed,) = load_context([tmp_path / "broken.pdf"])
    with pytest.raises(duckdb.Error):
        read(feed)
    assert feed.failure is not None
    assert feed.failure.message.startswith(f"{tmp_path}/broken.pdf cannot be read as a PDF file: ")
    with pytest.raises(ConfigError) as caught:
        load_context([tmp_path / "old.doc"])
    assert caught.value.hint == "save it as .docx, .xlsx or .pptx"
    with pytest.raises(ConfigError, match="cannot be read as an Excel workbook"):
        load_context([tmp_path / "bad.xlsx"])


def test_without_a_library_a_document_names_the_extra_and_html_is_read_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kleene.tools.documents import kinds

    monkeypatch.setattr(kinds.importlib.util, "find_spec", lambda name: None)
    write(tmp_path, {"a.pdf": making.pdf(["x"]), "a.html": "<p>x</p>"})
    with pytest.raises(ConfigError) as caught:
        load_context([tmp_path / "a.pdf"])
    assert caught.value.hint == "pip install 'kleene[documents]'"
    (feed,) = load_context([tmp_path / "a.html"])
    assert read(feed) == [(1, "<p>x</p>")]
    assert feed.notes == ["a.html is read with its tags: pip install 'kleene[documents]' reads HTML"]
