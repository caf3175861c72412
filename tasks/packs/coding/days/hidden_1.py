import unittest

import days


def spans(*texts):
    return [days.parse(text) for text in texts]


class Hidden(unittest.TestCase):
    def test_what_does_not_touch_stays_apart(self):
        found = days.merge(spans("2026-03-03", "2026-03-01"))
        self.assertEqual(found, spans("2026-03-01", "2026-03-03"))

    def test_a_span_inside_another_adds_nothing(self):
        self.assertEqual(
            days.merge(spans("2026-01-01..2026-12-31", "2026-05-01..2026-05-02", "2026-12-31")),
            spans("2026-01-01..2026-12-31"),
        )

    def test_months_and_leap_days_touch(self):
        self.assertEqual(days.merge(spans("2028-02-28", "2028-02-29", "2028-03-01")), spans("2028-02-28..2028-03-01"))
        self.assertEqual(len(days.merge(spans("2028-02-28", "2028-03-01"))), 2)

    def test_what_is_given_is_left_as_it_is(self):
        given = spans("2026-03-03", "2026-03-01..2026-03-02")
        days.merge(given)
        self.assertEqual(given, spans("2026-03-03", "2026-03-01..2026-03-02"))

    def test_nothing(self):
        self.assertEqual((days.merge([]), days.total([])), ([], 0))

    def test_a_year(self):
        self.assertEqual(days.total(spans("2028-01-01..2028-12-31", "2028-07-01")), 366)

    def test_spans_that_are_none(self):
        for text in ("2026-01-02..2026-01-01", "2026-02-30", "yesterday", ""):
            with self.assertRaises(ValueError):
                days.parse(text)
