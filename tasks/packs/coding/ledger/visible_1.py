import datetime
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger

TEXT = "date,account,amount\n2026-01-05,rent,-800.00\n2026-01-06,sales,1200.50\n2026-02-05,rent,-800.00\n"


def written(text):
    folder = tempfile.mkdtemp()
    path = Path(folder) / "bookings.csv"
    path.write_text(text, encoding="utf-8")
    return path


class Reading(unittest.TestCase):
    def test_a_booking_has_a_day_an_account_and_an_amount(self):
        first = ledger.read(written(TEXT))[0]
        self.assertEqual(
            (first.day, first.account, first.amount), (datetime.date(2026, 1, 5), "rent", Decimal("-800.00"))
        )

    def test_a_balance_is_the_sum_of_an_account(self):
        self.assertEqual(ledger.balance(ledger.read(written(TEXT)), "rent"), Decimal("-1600.00"))


if __name__ == "__main__":
    unittest.main()
