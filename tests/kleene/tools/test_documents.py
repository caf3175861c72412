"""Documents as text, pages and tables."""

from __future__ import annotations

import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest

from kleene.planner.errors import ToolError
from kleene.tools import documents
from kleene.tools.documents import archive as archives
from kleene.tools.standard import READ, READ_PAGES, READ_TABLE
from tests.kleene.tools.working import rows, work, write

for library in ("pypdf", "docx", "openpyxl", "pptx", "markdownify", "fpdf"):
    pytest.importorskip(library)

from tests.kleene.tools import making  # noqa: E402 - it imports what may be missing


def read(tmp_path: Path, name: str, data: bytes | str) -> str:
    ((text,),) = rows(READ, write(tmp_path, {name: data}), name)
    assert isinstance(text, str)
    return text


def pages(tmp_path: Path, name: str, data: bytes | str) -> list[tuple[object, ...]]:
    return rows(READ_PAGES, write(tmp_path, {name: data}), name)


def table(tmp_path: Path, name: str, data: bytes | str, *more: object) -> list[tuple[object, ...]]:
    return rows(READ_TABLE, write(tmp_path, {name: data}), name, *more)


def failed(tmp_path: Path, name: str, data: bytes | str, tool: object = READ, *more: object) -> ToolError:
    with pytest.raises(ToolError) as caught:
        rows(tool, write(tmp_path, {name: data}), name, *more)  # type: ignore[arg-type]
    return caught.value


def test_a_pdf_is_read_page_by_page(tmp_path: Path) -> None:
    data = making.pdf(["First page\nof two lines", "Second page"], outline=True)
    assert pages(tmp_path, "a.pdf", data) == [(1, "Part 1", "First page\nof two lines"), (2, "Part 2", "Second page")]
    assert read(tmp_path, "a.pdf", data) == "First page\nof two lines\n\nSecond page"
    assert pages(tmp_path, "b.txt", making.pdf([" "])) == [(1, None, "")]
    error = failed(tmp_path, "a.pdf", data, READ_TABLE)
    assert error.kind == "unsupported"
    assert "read_pages(path)" in (error.hint or "")


def test_an_encrypted_pdf_is_read_only_where_everyone_may(tmp_path: Path) -> None:
    assert read(tmp_path, "a.pdf", making.pdf(["for all"], owner="secret")) == "for all"
    error = failed(tmp_path, "a.pdf", making.pdf(["for few"], password="secret"))
    assert (error.kind, error.message) == ("unsupported", "a.pdf is encrypted")


def test_a_word_document_is_markdown(tmp_path: Path) -> None:
    assert read(tmp_path, "a.docx", making.word()) == (
        "# Supply agreement\n\nBetween A & B <Ltd>.\tSigned.\n\n# 1. Term\n\n- First\n- Second\n\n### 1.1 Details\n\n"
        "| Part | Price \\| USD |\n| --- | --- |\n| Housing | 41.50 |\n| Müller second line |  |"
    )
    assert [(page, title) for page, title, _ in pages(tmp_path, "a.docx", making.word())] == [
        (1, "Supply agreement"),
        (2, "1. Term"),
    ]
    assert table(tmp_path, "a.docx", making.word()) == [
        ("table 1", 2, {"Part": "Housing", "Price | USD": "41.50"}),
        ("table 1", 3, {"Part": "Müller\nsecond line", "Price | USD": ""}),
    ]


def test_tracked_changes_are_accepted_and_told(tmp_path: Path) -> None:
    found = pages(tmp_path, "a.docx", making.word(changes=True))
    assert str(found[1][2]).endswith("The cap is twelve months.")
    assert found[3] == (
        4,
        "Tracked changes",
        "# Tracked changes\n\n- Counsel (2025-03-04) deleted: six\n- Counsel (2025-03-04) inserted: twelve",
    )
    assert found[2][1] == "Comments"
    assert str(found[2][2]).endswith("): Is this right?")


def test_a_workbook_is_csv_and_typed_tables(tmp_path: Path) -> None:
    data = making.workbook(making.PRICES)
    assert pages(tmp_path, "a.xlsx", data) == [
        (
            1,
            "Prices",
            "Price list 2025\nPart,Unit price,Since,Sold,Unit price\nHousing,41.5,2024-03-01,true,3,extra\nImpeller,18,2024-03-01 14:30:00,false",
        ),
        (2, "Rebates", "From,Percent\n0,0.015\n1000000,=B2*2"),
        (3, "Empty", ""),
    ]
    assert table(tmp_path, "a.xlsx", data) == [
        (
            "Prices",
            4,
            {
                "Part": "Housing",
                "Unit price": 41.5,
                "Since": "2024-03-01",
                "Sold": True,
                "Unit price_2": 3,
                "F": "extra",
            },
        ),
        (
            "Prices",
            5,
            {
                "Part": "Impeller",
                "Unit price": 18,
                "Since": "2024-03-01 14:30:00",
                "Sold": False,
                "Unit price_2": None,
                "F": None,
            },
        ),
        ("Rebates", 2, {"From": 0, "Percent": 0.015}),
        ("Rebates", 3, {"From": 1_000_000, "Percent": "=B2*2"}),
    ]
    assert [row[2] for row in table(tmp_path, "a.xlsx", data, "rebates")] == [
        row[2] for row in table(tmp_path, "a.xlsx", data, "2")
    ]
    assert table(tmp_path, "a.xlsx", data, "Rebates", 0)[0] == ("Rebates", 1, {"A": "From", "B": "Percent"})
    assert table(tmp_path, "a.xlsx", data, "Rebates", 2) == [("Rebates", 3, {"0": 1_000_000, "0.015": "=B2*2"})]
    assert table(tmp_path, "a.xlsx", data, "Empty") == []
    error = failed(tmp_path, "a.xlsx", data, READ_TABLE, "Price")
    assert (error.message, error.hint) == ("a.xlsx has no table 'Price'", "did you mean 'Prices'?")
    assert failed(tmp_path, "a.xlsx", data, READ_TABLE, "zzz").hint == "there are: Prices, Rebates, Empty"
    assert failed(tmp_path, "a.xlsx", data, READ_TABLE, None, -1).kind == "invalid arguments"


def test_the_cells_of_a_table_are_taken_by_their_names_in_sql(tmp_path: Path) -> None:
    import duckdb

    import kleene

    write(tmp_path, {"a.xlsx": making.workbook(making.PRICES), "b.csv": "Part,n\nHousing,7\n"})
    with duckdb.connect() as con:
        k = kleene.attach(con, store=":memory:", workspace=tmp_path, models=kleene.FunctionModel(lambda _: "none"))
        found = k.sql(
            "SELECT f.path, t.row, t.cells->>'Part' AS part, CAST(t.cells->>'Unit price' AS DOUBLE) AS price, json_keys(t.cells)[1] AS first "
            "FROM files('*.{xlsx,csv}') f, LATERAL read_table(f.path) t WHERE t.sheet <> 'Rebates' ORDER BY ALL"
        )
        assert list(found) == [
            ("a.xlsx", 4, "Housing", 41.5, "Part"),
            ("a.xlsx", 5, "Impeller", 18.0, "Part"),
            ("b.csv", 2, "Housing", None, "Part"),
        ]
        k.close()


def test_slides_have_titles_notes_tables_and_groups(tmp_path: Path) -> None:
    data = making.slides()
    assert pages(tmp_path, "a.pptx", data) == [
        (1, "Plan", "Plan\n\nFirst\nSecond\n\nNotes: Say it slowly"),
        (2, None, "| Role | Count |\n| --- | --- |\n| Driver | 34 |\n\nIn a group"),
    ]
    assert table(tmp_path, "a.pptx", data) == [("table 1", 2, {"Role": "Driver", "Count": "34"})]


def test_headers_and_footers_follow_the_text_once(tmp_path: Path) -> None:
    assert pages(tmp_path, "a.docx", making.letter()) == [
        (1, None, "Dear Bob,"),
        (
            2,
            "Headers and footers",
            "# Headers and footers\n\n- header: Confidential\n- header: Draft 3\n- footer: Ada & Sons",
        ),
    ]


def test_charts_have_titles_and_figures(tmp_path: Path) -> None:
    ((_, _, text),) = pages(tmp_path, "a.pptx", making.charts())
    sold = "Chart: Sold by year\n\n|  | Pumps | Seals \\| all |\n| --- | --- | --- |\n| 2024 | 12.5 |  |\n| 2025 | 14 | 0.1 |"
    assert text.split("\n\nChart")[0] == sold
    assert text.endswith("Chart\n\n|  | Run |\n| --- | --- |\n|  | 2.5 |")


def test_a_mail_and_its_attachments(tmp_path: Path) -> None:
    data = making.mail(
        *(
            ("rates.csv", b"a;b\n1;2\n"),
            ("a.docx", making.word()),
            ("pic.png", b"\x89PNG\0"),
            ("book.xlsx", making.workbook(making.PRICES)),
        ),
        ("inner.eml", making.mail(("x.txt", b"deep"), subject="Inner")),
    )
    found = pages(tmp_path, "a.eml", data)
    head = "From: Ada <ada@x.example>\nTo: Bob <bob@x.example>\nDate: Mon, 10 Mar 2025 09:12:00 -0500\nSubject: Größe der Kiste\n\n"
    assert found[0] == (1, "Größe der Kiste", head + "Please look.\n\nAda")
    assert [title for _, title, _ in found[1:]] == ["rates.csv", "a.docx", "pic.png", "book.xlsx", "inner.eml"]
    assert found[1][2] == "a;b\n1;2\n"
    assert (
        found[3][2]
        == "(application/octet-stream, 5 bytes: a.eml: pic.png is a binary file of no kind that can be read)"
    )
    assert str(found[5][2]).endswith("# x.txt\n\ndeep")
    assert "# rates.csv\n\na;b" in read(tmp_path, "a.eml", data)
    assert table(tmp_path, "a.eml", data, "rates.csv") == [("rates.csv", 2, {"a": "1", "b": "2"})]
    assert {row[0] for row in table(tmp_path, "a.eml", data)} == {
        "rates.csv",
        "a.docx",
        "book.xlsx: Prices",
        "book.xlsx: Rebates",
    }
    assert pages(tmp_path, "b.eml", making.mail(html="<p>Hello <b>you</b></p>"))[0][2] == head + "Hello **you**"


def test_mails_in_mails_end(tmp_path: Path) -> None:
    data = making.mail()
    for _ in range(12):
        data = making.mail(("inner.eml", data))
    assert "lies in more than 4 other mails" in read(tmp_path, "a.eml", data)
    assert failed(tmp_path, "b.eml", b"").kind == "unsupported"


def test_html_is_what_a_browser_shows(tmp_path: Path) -> None:
    assert read(tmp_path, "a.html", making.HTML) == (
        "# Rates\n\n## Now\n\nA **bold** word & a [link](https://x.example/a).\n\n- one\n- two\n\n"
        "| Part | Price |\n| --- | --- |\n| Housing | 41.50 |"
    )
    assert read(tmp_path, "page", making.HTML) == read(tmp_path, "a.html", making.HTML)
    assert [title for _, title, _ in pages(tmp_path, "a.html", making.HTML)] == ["Rates", "Now"]
    assert table(tmp_path, "a.html", making.HTML) == [("table 1", 2, {"Part": "Housing", "Price": "41.50"})]
    assert read(tmp_path, "b.html", '<meta charset="iso-8859-1"><p>caf\xe9</p>'.encode("latin-1")) == "café"
    assert read(tmp_path, "c.html", "") == ""


@pytest.mark.parametrize(
    ("name", "content", "found"),
    [
        ("a.csv", 'x,y\n1,"a, b"\n\n2\n', [(2, {"x": "1", "y": "a, b"}), (4, {"x": "2", "y": None})]),
        ("a.csv", "x;y\n1,5;2\n", [(2, {"x": "1,5", "y": "2"})]),
        ("a.tsv", "x\ty\n1,5\t2\n", [(2, {"x": "1,5", "y": "2"})]),
        ("a.csv", "one\n1\n2\n", [(2, {"one": "1"}), (3, {"one": "2"})]),
        ("a.csv", 'x,y\r\n1,"two\r\nlines"\r\n', [(2, {"x": "1", "y": "two\nlines"})]),
        ("a.csv", "", []),
        ("a.csv", "x,y\n", []),
    ],
    ids=["quotes", "semicolons", "tabs", "one column", "crlf", "empty", "header only"],
)
def test_csv_as_a_table(tmp_path: Path, name: str, content: str, found: list[tuple[int, object]]) -> None:
    assert table(tmp_path, name, content) == [("table 1", row, cells) for row, cells in found]


def test_texts_have_sections_for_pages_and_no_tables(tmp_path: Path) -> None:
    text = "intro\n\n# One\n\n```\n# no heading\n```\n\n### Three\n\n## Two ##\nend\n"
    assert pages(tmp_path, "a.md", text) == [
        (1, None, "intro"),
        (2, "One", "# One\n\n```\n# no heading\n```\n\n### Three"),
        (3, "Two", "## Two ##\nend"),
    ]
    assert pages(tmp_path, "a.txt", "one\n\ftwo") == [(1, None, "one"), (2, None, "two")]
    assert pages(tmp_path, "a.txt", "") == []
    assert read(tmp_path, "a.txt", "") == ""
    assert read(tmp_path, "a.txt", b"caf\xe9\r\nb") == "café\nb"
    assert failed(tmp_path, "a.md", text, READ_TABLE).message == "a.md is a text, which holds no tables"


BROKEN = {
    "cut.pdf": making.pdf(["text"])[:200],
    "none.pdf": b"%PDF-1.7",
    "cut.docx": making.word()[:-400],
    "cut.xlsx": making.workbook(making.PRICES)[:2000],
    "cut.pptx": making.slides()[:-100],
    "none.docx": b"PK\x03\x04",
    "empty.docx": making.archive({"[Content_Types].xml": b"", "word/document.xml": b""}),
    "odd.xlsx": making.archive({"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b"<a>"}),
    "odd.zip": making.archive({"a.txt": b"x"}),
    "old.doc": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + b"\0" * 100,
    "locked.xlsx": b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le"),
    "pic.png": b"\x89PNG\r\n\x1a\n\0\0",
    "deep.html": "<div>" * 5_000,
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_document_is_an_error_that_names_it(tmp_path: Path, name: str) -> None:
    error = failed(tmp_path, name, BROKEN[name])
    assert error.kind in ("unsupported", "too large")
    assert error.message.startswith(name)
    assert len(error.message) < 300


def test_documents_that_cannot_be_read_say_what_to_do(tmp_path: Path) -> None:
    assert failed(tmp_path, "old.doc", BROKEN["old.doc"]).hint == "save it as .docx, .xlsx or .pptx"
    assert failed(tmp_path, "locked.xlsx", BROKEN["locked.xlsx"]).message == "locked.xlsx is encrypted"
    data = bytearray(making.word())
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):
        at = data.find(mark)
        data[at + offset] |= 1
    assert failed(tmp_path, "locked.docx", bytes(data)).message == "locked.docx is encrypted"


def test_a_bomb_is_not_unpacked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(archives, "MAX_PART", 1 << 20)
    bomb = making.archive({"[Content_Types].xml": b"<Types/>", "word/document.xml": b" " * (2 << 20)})
    assert len(bomb) < 10_000
    with pytest.raises(ToolError) as caught:
        documents.text(documents.Source.of("a.docx", bomb))
    error = caught.value
    assert (error.kind, error.message) == ("too large", "a.docx unpacks to 2,097,160 bytes in 2 parts")


def test_a_bomb_that_declares_a_small_size_is_broken(tmp_path: Path) -> None:
    parts = {"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b" " * 1_000_000}
    data = bytearray(making.archive(parts))
    for mark, offset in ((b"PK\x03\x04", 22), (b"PK\x01\x02", 24)):
        at = data.find(mark, data.find(mark) + 4)
        data[at + offset : at + offset + 4] = struct.pack("<I", 10)
    assert failed(tmp_path, "a.xlsx", bytes(data)).kind == "unsupported"


def test_entities_are_not_expanded(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path, {"a.docx": making.word()}) / "a.docx") as made:
        parts = {name: made.read(name) for name in made.namelist()}
    bomb = (
        b'<!DOCTYPE x [<!ENTITY a "0123456789"><!ENTITY b "' + b"&a;" * 100 + b'"><!ENTITY c "' + b"&b;" * 100 + b'">'
    )
    bomb += b'<!ENTITY file SYSTEM "file:///etc/passwd">]>'
    head, _, body = parts["word/document.xml"].partition(b"?>")
    for entity in (b"&file;", b"&c;" * 100):
        parts["word/document.xml"] = head + b"?>" + bomb + body.replace(b"1. Term", entity)
        try:
            text = read(tmp_path, "a.docx", making.archive(parts))
        except ToolError as error:
            assert error.kind == "unsupported"
        else:
            assert "root:" not in text
            assert len(text) < 2_000


def test_a_sheet_that_lies_of_its_size_is_read_as_it_is(tmp_path: Path) -> None:
    with zipfile.ZipFile(write(tmp_path, {"a.xlsx": making.workbook({"S": [["a", "b"], [1, 2]]})}) / "a.xlsx") as made:
        parts = {name: made.read(name) for name in made.namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    assert b'ref="A1:B2"' in sheet
    for claimed in (b'ref="A1:XFD1048576"', b'ref="A1"'):
        parts["xl/worksheets/sheet1.xml"] = sheet.replace(b'ref="A1:B2"', claimed)
        assert table(tmp_path, "a.xlsx", making.archive(parts)) == [("S", 2, {"a": 1, "b": 2})]


def test_a_document_that_takes_too_long_is_ended(tmp_path: Path) -> None:
    write(tmp_path, {"a.pdf": making.pdf(["text"] * 300)})
    with pytest.raises(ToolError) as caught:
        rows(READ, work(tmp_path, seconds=0.01), "a.pdf")
    assert caught.value.kind == "timed out"
    with pytest.raises(ToolError) as caught:
        rows(READ, work(tmp_path, file_bytes=100), "a.pdf")
    assert caught.value.kind == "too large"


def test_without_the_libraries_the_extra_is_named(tmp_path: Path) -> None:
    write(tmp_path, {"a.pdf": b"%PDF-1.7", "a.html": "<p>x", "a.xlsx": making.workbook({"S": [[1]]}), "a.md": "x"})
    program = f"""
import sys
for name in ("pypdf", "docx", "openpyxl", "pptx", "markdownify", "charset_normalizer"):
    sys.modules[name] = None
from kleene.planner.errors import ToolError
from kleene.tools import documents
for path in ("a.pdf", "a.html", "a.xlsx", "a.md"):
    with open({str(tmp_path)!r} + "/" + path, "rb") as stream:
        try:
            print(documents.text(documents.Source(path, stream)))
        except ToolError as error:
            print(error.kind, error.message, error.hint, sep="|")
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    said = "unsupported|reading {} needs the library {}, which is not installed|pip install 'kleene[documents]'"
    assert done.stdout.splitlines() == [
        said.format("PDF files", "pypdf"),
        said.format("HTML", "markdownify"),
        said.format("Excel workbooks", "openpyxl"),
        "x",
    ], done.stderr


@pytest.mark.parametrize(
    "content",
    ["<!-- a -->" * 800 + "x", "# " + "# " * 200_000 + "x", "#" + " " * 200_000 + "x\n"],
    ids=["comments", "marks", "spaces"],
)
def test_a_text_made_for_it_does_not_keep_the_expressions_busy(tmp_path: Path, content: str) -> None:
    """Texts are read by the thread that asks, so what looks at them must not go back and forth in them."""
    begun = time.process_time()
    assert pages(tmp_path, "a.md", content.encode())[0][0] == 1
    assert time.process_time() - begun < 2  # it was hours, or minutes
