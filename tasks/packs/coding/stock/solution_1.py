"""The stock of a warehouse: goods come in at a price and leave, the oldest first."""

from collections import defaultdict


class Stock:
    def __init__(self):
        self._lots = defaultdict(list)  # item: [quantity, price] in the order of arrival

    def receive(self, item, quantity, price):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        self._lots[item].append([quantity, price])

    def quantity(self, item):
        return sum(quantity for quantity, _ in self._lots[item])

    def value(self):
        return sum(quantity * price for lots in self._lots.values() for quantity, price in lots)

    def ship(self, item, quantity):
        if quantity <= 0:
            raise ValueError("quantity must be positive")
        if quantity > self.quantity(item):
            raise ValueError(f"only {self.quantity(item)} of {item}")
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
