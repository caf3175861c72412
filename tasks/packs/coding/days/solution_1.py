"""Spans of days, both ends included: (first, last)."""

import datetime

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
