import unittest
from decimal import Decimal

from stock import Stock


class Hidden(unittest.TestCase):
    def test_items_are_apart(self):
        stock = Stock()
        stock.receive("lamp", 2, 3)
        stock.receive("vase", 5, 7)
        self.assertEqual(stock.ship("vase", 5), 35)
        self.assertEqual((stock.quantity("vase"), stock.quantity("lamp"), stock.value()), (0, 2, 6))

    def test_a_refused_shipment_changes_nothing(self):
        stock = Stock()
        stock.receive("lamp", 2, 3)
        stock.receive("lamp", 2, 5)
        with self.assertRaises(ValueError):
            stock.ship("lamp", 5)
        self.assertEqual((stock.quantity("lamp"), stock.value(), stock.ship("lamp", 3)), (4, 16, 11))

    def test_quantities_are_positive(self):
        stock = Stock()
        for call in (
            lambda: stock.receive("lamp", 0, 1),
            lambda: stock.receive("lamp", -1, 1),
            lambda: stock.ship("lamp", 0),
        ):
            with self.assertRaises(ValueError):
                call()

    def test_prices_can_be_decimals(self):
        stock = Stock()
        stock.receive("lamp", 3, Decimal("0.10"))
        self.assertEqual(stock.ship("lamp", 3), Decimal("0.30"))

    def test_nothing_is_worth_nothing(self):
        self.assertEqual((Stock().value(), Stock().quantity("lamp")), (0, 0))
