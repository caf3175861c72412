import unittest

import words


class Apostrophes(unittest.TestCase):
    def test_the_sentence_of_the_report(self):
        self.assertEqual(words.top("Don't wait, don\u2019t run", 1), [("don't", 2)])


if __name__ == "__main__":
    unittest.main()
