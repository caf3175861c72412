import unittest

import words


class Counting(unittest.TestCase):
    def test_words_are_lower_case_letters(self):
        self.assertEqual(words.words("Three boats, 2 BOATS."), ["three", "boats", "boats"])

    def test_the_most_frequent_words(self):
        self.assertEqual(words.top("b a b c a b", 2), [("b", 3), ("a", 2)])


if __name__ == "__main__":
    unittest.main()
