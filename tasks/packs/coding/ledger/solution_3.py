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
    with open(path, encoding="utf-8-sig", newline="") as file:
        head = file.readline()
        file.seek(0)
        rows = csv.reader(file, delimiter=";" if head.count(";") > head.count(",") else ",")
        names = [name.strip().lower() for name in next(rows)]
        found = []
        for cells in rows:
            if any(cell.strip() for cell in cells):
                row = dict(zip(names, cells, strict=False))
                day = datetime.date.fromisoformat(row["date"].strip())
                found.append(Booking(day, row["account"].strip(), amount_of(row["amount"])))
        return found


def balance(bookings, account, until=None):
    return sum(
        (b.amount for b in bookings if b.account == account and (until is None or b.day <= until)), start=Decimal(0)
    )


def monthly(bookings):
    sums = defaultdict(Decimal)
    for booking in bookings:
        sums[(booking.day.year, booking.day.month), booking.account] += booking.amount
    return dict(sums)
