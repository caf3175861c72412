"""Statistics of the words of a text, and of phrases of them."""

import re
import unicodedata
from collections import Counter


def words(text):
    text = unicodedata.normalize("NFC", text).replace("\u2019", "'")
    return [word.lower() for word in re.findall(r"[^\W\d_]+(?:'[^\W\d_]+)*", text)]


def counts(text):
    return dict(Counter(words(text)))


def ranked(found, n):
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))[:n]


def top(text, n):
    return ranked(counts(text), n)


def sentences(text):
    return [words(part) for part in re.split(r"[.!?]+|\n\s*\n", text)]


def phrases(text, size, n):
    found = Counter(
        " ".join(sentence[at : at + size]) for sentence in sentences(text) for at in range(len(sentence) - size + 1)
    )
    return ranked(found, n)
