import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger


def read(text):
    path = Path(tempfile.mkdtemp()) / "b.csv"
    path.write_bytes(text.encode())
    return [(b.day.isoformat(), b.account, b.amount) for b in ledger.read(path)]


class Hidden(unittest.TestCase):
    def test_a_byte_order_mark_before_commas(self):
        self.assertEqual(read("\ufeffdate,account,amount\n2026-01-05,rent,3\n"), [("2026-01-05", "rent", Decimal(3))])

    def test_names_in_any_case_with_blanks(self):
        self.assertEqual(read(" Amount ,DATE,account\n3,2026-01-05,rent\n"), [("2026-01-05", "rent", Decimal(3))])

    def test_semicolons_with_commas_of_thousands(self):
        self.assertEqual(
            read("date;account;amount\r\n2026-01-05;rent;(1,250.00)\r\n"), [("2026-01-05", "rent", Decimal("-1250"))]
        )

    def test_empty_lines_and_lines_of_separators_are_no_bookings(self):
        text = "date,account,amount\n\n2026-01-05,rent,3\n,,\n \n"
        self.assertEqual(read(text), [("2026-01-05", "rent", Decimal(3))])

    def test_a_semicolon_in_a_note_decides_nothing(self):
        text = 'date,account,amount,note\n2026-01-05,rent,3,"a; b; c; d"\n'
        self.assertEqual(read(text), [("2026-01-05", "rent", Decimal(3))])
