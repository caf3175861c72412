import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger

TEXT = 'date,account,amount\n2026-01-05,rent,"(1,250.00)"\n2026-01-20,rent,50\n2026-02-05,sales,"2,000.50"\n'


class Months(unittest.TestCase):
    def setUp(self):
        path = Path(tempfile.mkdtemp()) / "bookings.csv"
        path.write_text(TEXT, encoding="utf-8")
        self.bookings = ledger.read(path)

    def test_accountants_write_negative_amounts_in_brackets(self):
        self.assertEqual(self.bookings[0].amount, Decimal("-1250.00"))

    def test_sums_by_month_and_account(self):
        self.assertEqual(
            ledger.monthly(self.bookings),
            {((2026, 1), "rent"): Decimal("-1200.00"), ((2026, 2), "sales"): Decimal("2000.50")},
        )


if __name__ == "__main__":
    unittest.main()
