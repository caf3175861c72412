import unittest

import words


class Hidden(unittest.TestCase):
    def test_every_end_of_a_sentence_counts(self):
        self.assertEqual(words.phrases("Go! On? Now... Then", 2, 9), [])

    def test_an_empty_line_ends_a_sentence_and_a_line_end_does_not(self):
        self.assertEqual(words.phrases("a title\n\nthe\ntext", 2, 9), [("a title", 1), ("the text", 1)])

    def test_phrases_overlap(self):
        self.assertEqual(words.phrases("x x x x", 3, 9), [("x x x", 2)])

    def test_phrases_of_one_word_are_words(self):
        text = "a b. a, c"
        self.assertEqual(words.phrases(text, 1, 9), words.top(text, 9))

    def test_a_longer_phrase_than_any_sentence(self):
        self.assertEqual(words.phrases("a b. c d.", 3, 9), [])
