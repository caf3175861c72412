"""A ledger: bookings of accounts, read from a CSV file."""

import csv
import datetime
from collections import namedtuple
from decimal import Decimal

Booking = namedtuple("Booking", "day account amount")


def read(path):
    with open(path, encoding="utf-8", newline="") as file:
        return [
            Booking(datetime.date.fromisoformat(row["date"]), row["account"], Decimal(row["amount"]))
            for row in csv.DictReader(file)
        ]


def balance(bookings, account, until=None):
    return sum(
        (b.amount for b in bookings if b.account == account and (until is None or b.day <= until)), start=Decimal(0)
    )
