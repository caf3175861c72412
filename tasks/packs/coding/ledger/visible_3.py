import tempfile
import unittest
from decimal import Decimal
from pathlib import Path

import ledger


class Spreadsheets(unittest.TestCase):
    def test_a_file_as_in_the_report(self):
        path = Path(tempfile.mkdtemp()) / "bookings.csv"
        path.write_bytes("\ufeffDate;Account;Amount\r\n2026-01-05;rent;-800.00\r\n;;\r\n".encode())
        self.assertEqual([(b.account, b.amount) for b in ledger.read(path)], [("rent", Decimal("-800.00"))])


if __name__ == "__main__":
    unittest.main()
