"""The stock of a warehouse: goods come in at a price and leave, the oldest first; orders can reserve some."""

from collections import defaultdict


class Stock:
    def __init__(self):
        self._lots = defaultdict(list)  # item: [quantity, price] in the order of arrival
        self._reserved = {}  # order: (item, quantity)

    def receive(self, item, quantity, price):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        self._lots[item].append([quantity, price])

    def items(self):
        return sorted(item for item, lots in self._lots.items() if lots)

    def quantity(self, item):
        return sum(quantity for quantity, _ in self._lots.get(item, ()))

    def value(self):
        return sum(quantity * price for lots in self._lots.values() for quantity, price in lots)

    def ship_all(self, lines):
        wanted = defaultdict(int)
        for item, quantity in lines:
            if quantity <= 0:
                raise ValueError("quantity must be positive")
            wanted[item] += quantity
        for item, quantity in wanted.items():
            if quantity > self.available(item):
                raise ValueError(f"only {self.available(item)} of {item}")
        return sum(self._take(item, quantity) for item, quantity in lines)

    def ship(self, item, quantity):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        if quantity > self.available(item):
            raise ValueError(f"only {self.available(item)} of {item}")
        return self._take(item, quantity)

    def available(self, item):
        return self.quantity(item) - sum(n for reserved, n in self._reserved.values() if reserved == item)

    def reserve(self, order, item, quantity):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        if order in self._reserved:
            raise ValueError(f"{order} has a reservation")
        if quantity > self.available(item):
            raise ValueError(f"only {self.available(item)} of {item}")
        self._reserved[order] = (item, quantity)

    def cancel(self, order):
        del self._reserved[order]

    def fulfil(self, order):
        return self._take(*self._reserved.pop(order))

    def _take(self, item, quantity):
        cost = 0
        while quantity:
            lot = self._lots[item][0]
            taken = min(quantity, lot[0])
            cost += taken * lot[1]
            quantity -= taken
            lot[0] -= taken
            if not lot[0]:
                self._lots[item].pop(0)
        return cost
