import unittest

import days


class Hidden(unittest.TestCase):
    def test_a_month_ends_on_its_last_day(self):
        for month, last in (("2028-02", 29), ("2027-02", 28), ("2026-12", 31), ("2026-09", 30)):
            self.assertEqual(days.parse(month)[1].day, last)
            self.assertEqual(days.total([days.parse(month)]), last)

    def test_days_and_months_mix(self):
        self.assertEqual(days.parse("2026-01-15..2026-02"), days.parse("2026-01-15..2026-02-28"))
        self.assertEqual(days.parse("2026-01..2026-02-10"), days.parse("2026-01-01..2026-02-10"))

    def test_blanks_around_the_dots(self):
        self.assertEqual(days.parse(" 2026-01-05 .. 2026-01-09 "), days.parse("2026-01-05..2026-01-09"))

    def test_an_open_end_is_an_error(self):
        for text in ("2026-01-05..", "..2026-01-05", "..", "2026-13", "2026-02..2026-01"):
            with self.assertRaises(ValueError):
                days.parse(text)
