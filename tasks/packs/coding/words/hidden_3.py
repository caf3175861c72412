import unittest

import words


class Hidden(unittest.TestCase):
    def test_both_signs_are_one(self):
        self.assertEqual(words.counts("it's it\u2019s"), {"it's": 2})

    def test_quotation_marks_are_no_part_of_a_word(self):
        self.assertEqual(words.words("'twas the sailors' \u2018rest\u2019"), ["twas", "the", "sailors", "rest"])

    def test_composed_and_decomposed_letters_are_one(self):
        self.assertEqual(words.counts("caf\u00e9 cafe\u0301"), {"caf\u00e9": 2})

    def test_phrases_hold_them_too(self):
        self.assertEqual(words.phrases("I don\u2019t. I don't.", 2, 9), [("i don't", 2)])

    def test_two_apostrophes_in_a_word(self):
        self.assertEqual(words.words("rock'n'roll '' x"), ["rock'n'roll", "x"])
