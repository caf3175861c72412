import unittest

import days


def spans(*texts):
    return [days.parse(text) for text in texts]


class Subtracting(unittest.TestCase):
    def test_holidays_are_taken_out(self):
        left = days.subtract(spans("2026-01-01..2026-01-31"), spans("2026-01-06", "2026-01-30..2026-02-02"))
        self.assertEqual(left, spans("2026-01-01..2026-01-05", "2026-01-07..2026-01-29"))

    def test_gaps_lie_between_spans(self):
        self.assertEqual(days.gaps(spans("2026-01-01..2026-01-03", "2026-01-07")), spans("2026-01-04..2026-01-06"))


if __name__ == "__main__":
    unittest.main()
