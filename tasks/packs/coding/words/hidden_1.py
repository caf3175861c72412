import unittest

import words


class Hidden(unittest.TestCase):
    def test_letters_of_other_languages_are_letters(self):
        self.assertEqual(words.words("Grüße an Zoë; 3x_y"), ["grüße", "an", "zoë", "x", "y"])

    def test_ties_go_by_the_alphabet(self):
        self.assertEqual(words.top("pear fig pear apple fig", 3), [("fig", 2), ("pear", 2), ("apple", 1)])

    def test_counts_are_a_dict(self):
        self.assertEqual(words.counts("a A b"), {"a": 2, "b": 1})

    def test_fewer_words_than_asked_for(self):
        self.assertEqual(words.top("one", 5), [("one", 1)])
        self.assertEqual(words.top("", 5), [])
        self.assertEqual(words.top("one two", 0), [])
