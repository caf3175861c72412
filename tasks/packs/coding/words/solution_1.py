"""Statistics of the words of a text."""

import re
from collections import Counter


def words(text):
    return [word.lower() for word in re.findall(r"[^\W\d_]+", text)]


def counts(text):
    return dict(Counter(words(text)))


def top(text, n):
    return sorted(counts(text).items(), key=lambda pair: (-pair[1], pair[0]))[:n]
