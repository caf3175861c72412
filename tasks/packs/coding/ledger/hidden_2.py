import datetime
import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger


def read(text):
    path = Path(tempfile.mkdtemp()) / "b.csv"
    path.write_text(text, encoding="utf-8")
    return ledger.read(path)


class Hidden(unittest.TestCase):
    def test_brackets_and_thousands_in_every_mix(self):
        found = read(
            'date,account,amount\n2026-03-01,a,(5)\n2026-03-01,a,"1,234,567.89"\n2026-03-01,a,-0.01\n2026-03-01,a, (0.50) \n'
        )
        self.assertEqual(
            [b.amount for b in found], [Decimal("-5"), Decimal("1234567.89"), Decimal("-0.01"), Decimal("-0.50")]
        )

    def test_the_same_month_of_two_years_is_two(self):
        found = ledger.monthly(read("date,account,amount\n2025-12-31,a,1\n2026-12-01,a,2\n2025-12-01,a,3\n"))
        self.assertEqual(found, {((2025, 12), "a"): Decimal(4), ((2026, 12), "a"): Decimal(2)})

    def test_sums_that_cancel_out_are_there(self):
        self.assertEqual(
            ledger.monthly(read("date,account,amount\n2026-01-01,a,5\n2026-01-02,a,(5)\n")), {((2026, 1), "a"): 0}
        )

    def test_no_bookings_no_months(self):
        self.assertEqual(ledger.monthly([]), {})

    def test_balances_know_brackets(self):
        found = read("date,account,amount\n2026-01-01,a,5\n2026-01-02,a,(7)\n")
        self.assertEqual(ledger.balance(found, "a", until=datetime.date(2026, 1, 2)), Decimal(-2))
