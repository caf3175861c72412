import unittest

import words


class Phrases(unittest.TestCase):
    def test_phrases_of_two_words(self):
        self.assertEqual(words.phrases("the red boat and the red car", 2, 1), [("the red", 2)])

    def test_a_phrase_does_not_cross_the_end_of_a_sentence(self):
        self.assertEqual(words.phrases("We sail. We row.", 2, 9), [("we row", 1), ("we sail", 1)])


if __name__ == "__main__":
    unittest.main()
