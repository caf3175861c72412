"""Spans of days, both ends included: (first, last)."""

import datetime
import itertools

ONE = datetime.timedelta(days=1)


def day_of(text, *, last):
    """A day, or the first or last day of a month that is written without one."""
    text = text.strip()
    if len(text) != len("2026-01"):
        return datetime.date.fromisoformat(text)
    first = datetime.date.fromisoformat(text + "-01")
    return (first.replace(day=28) + 4 * ONE).replace(day=1) - ONE if last else first


def parse(text):
    first, dots, last = text.partition("..")
    span = day_of(first, last=False), day_of(last if dots else first, last=True)
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
