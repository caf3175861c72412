"""Spans of days, both ends included: (first, last)."""

import datetime
import itertools

ONE = datetime.timedelta(days=1)


def parse(text):
    first, _, last = text.partition("..")
    span = datetime.date.fromisoformat(first), datetime.date.fromisoformat(last or first)
    if span[1] < span[0]:
        raise ValueError(f"{text} ends before it begins")
    return span


def merge(spans):
    merged = []
    for first, last in sorted(spans):
        if merged and first <= merged[-1][1] + ONE:
            merged[-1] = merged[-1][0], max(merged[-1][1], last)
        else:
            merged.append((first, last))
    return merged


def total(spans):
    return sum((last - first).days + 1 for first, last in merge(spans))


def subtract(spans, others):
    left = []
    others = merge(others)
    for first, last in merge(spans):
        for start, end in others:
            if end < first or last < start:
                continue
            if first < start:
                left.append((first, start - ONE))
            first = end + ONE
        if first <= last:
            left.append((first, last))
    return left


def gaps(spans):
    merged = merge(spans)
    return [(one[1] + ONE, other[0] - ONE) for one, other in itertools.pairwise(merged)]
