import unittest

import days


class Months(unittest.TestCase):
    def test_the_plan_of_the_report(self):
        self.assertEqual(days.parse("2026-02..2026-04"), days.parse("2026-02-01..2026-04-30"))
        self.assertEqual(days.parse("2026-02"), days.parse("2026-02-01..2026-02-28"))


if __name__ == "__main__":
    unittest.main()
