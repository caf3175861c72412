import datetime
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger

TEXT = (
    "account,date,note,amount\n"
    'rent,2026-01-05,"shop, first floor",-800.00\n'
    "sales,2026-01-06,,0.10\n"
    "sales,2026-01-31,,0.20\n"
    "sales,2026-02-01,,7\n"
)


def written(text):
    path = Path(tempfile.mkdtemp()) / "b.csv"
    path.write_text(text, encoding="utf-8")
    return path


class Hidden(unittest.TestCase):
    def test_columns_are_found_by_name_and_quoted_commas_kept(self):
        found = ledger.read(str(written(TEXT)))
        self.assertEqual(len(found), 4)
        self.assertEqual((found[0].account, found[0].day), ("rent", datetime.date(2026, 1, 5)))

    def test_amounts_are_exact(self):
        found = ledger.balance(ledger.read(written(TEXT)), "sales", until=datetime.date(2026, 1, 31))
        self.assertIsInstance(found, Decimal)
        self.assertEqual(found, Decimal("0.30"))

    def test_the_day_itself_counts(self):
        self.assertEqual(
            ledger.balance(ledger.read(written(TEXT)), "sales", until=datetime.date(2026, 1, 30)), Decimal("0.10")
        )

    def test_an_unknown_account_has_nothing(self):
        found = ledger.balance(ledger.read(written(TEXT)), "tax")
        self.assertIsInstance(found, Decimal)
        self.assertEqual(found, 0)

    def test_a_file_without_bookings(self):
        self.assertEqual(ledger.read(written("date,account,amount\n")), [])
