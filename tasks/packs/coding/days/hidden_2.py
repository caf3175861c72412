import unittest

import days


def spans(*texts):
    return [days.parse(text) for text in texts]


class Hidden(unittest.TestCase):
    def test_everything_is_taken_out(self):
        self.assertEqual(days.subtract(spans("2026-01-05..2026-01-09"), spans("2026-01-01..2026-01-31")), [])
        self.assertEqual(days.subtract(spans("2026-01-05"), spans("2026-01-05")), [])

    def test_what_lies_outside_takes_nothing(self):
        self.assertEqual(
            days.subtract(spans("2026-01-05..2026-01-09"), spans("2026-01-04", "2026-01-10")),
            spans("2026-01-05..2026-01-09"),
        )
        self.assertEqual(days.subtract(spans("2026-01-05"), []), spans("2026-01-05"))
        self.assertEqual(days.subtract([], spans("2026-01-05")), [])

    def test_one_span_over_several(self):
        left = days.subtract(spans("2026-01-01..2026-01-03", "2026-01-05..2026-01-08"), spans("2026-01-03..2026-01-05"))
        self.assertEqual(left, spans("2026-01-01..2026-01-02", "2026-01-06..2026-01-08"))

    def test_what_is_left_is_merged_and_in_order(self):
        left = days.subtract(spans("2026-01-05..2026-01-06", "2026-01-01..2026-01-04"), spans("2026-03-01"))
        self.assertEqual(left, spans("2026-01-01..2026-01-06"))

    def test_spans_without_gaps(self):
        self.assertEqual(days.gaps(spans("2026-01-01..2026-01-03", "2026-01-04", "2026-01-02")), [])
        self.assertEqual((days.gaps([]), days.gaps(spans("2026-01-01"))), ([], []))

    def test_gaps_and_spans_fill_the_year(self):
        found = spans("2026-01-01..2026-02-03", "2026-05-05", "2026-12-01..2026-12-31")
        self.assertEqual(days.total(found) + days.total(days.gaps(found)), 365)
