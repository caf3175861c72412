"""A ledger: bookings of accounts, read from a CSV file, and their sums by month."""

import csv
import datetime
from collections import defaultdict, namedtuple
from decimal import Decimal

Booking = namedtuple("Booking", "day account amount")


def amount_of(text):
    """(1,250.00) is -1250.00."""
    text = text.strip().replace(",", "")
    return -Decimal(text[1:-1]) if text.startswith("(") and text.endswith(")") else Decimal(text)


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Booking(datetime.date.fromisoformat(row["date"]), row["account"], amount_of(row["amount"]))
            for row in csv.DictReader(file)
        ]


def balance(bookings, account, until=None):
    return sum(
        (b.amount for b in bookings if b.account == account and (until is None or b.day <= until)), start=Decimal(0)
    )


def monthly(bookings):
    sums = defaultdict(Decimal)
    for booking in bookings:
        sums[(booking.day.year, booking.day.month), booking.account] += booking.amount
    return dict(sums)
