import datetime
import unittest

import days

JAN = [datetime.date(2026, 1, day) for day in range(1, 32)]


class Spans(unittest.TestCase):
    def test_a_span_has_two_days_and_a_day_is_a_span(self):
        self.assertEqual(days.parse("2026-01-05..2026-01-09"), (JAN[4], JAN[8]))
        self.assertEqual(days.parse("2026-01-05"), (JAN[4], JAN[4]))

    def test_spans_that_touch_are_merged(self):
        self.assertEqual(days.merge([(JAN[5], JAN[8]), (JAN[0], JAN[4])]), [(JAN[0], JAN[8])])

    def test_a_day_counts_once(self):
        self.assertEqual(days.total([(JAN[0], JAN[4]), (JAN[3], JAN[9])]), 10)


if __name__ == "__main__":
    unittest.main()
