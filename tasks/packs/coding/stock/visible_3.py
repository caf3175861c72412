import unittest

from stock import Stock


class AllOrNothing(unittest.TestCase):
    def test_the_shipment_of_the_report(self):
        stock = Stock()
        stock.receive("lamp", 5, 3)
        stock.receive("vase", 1, 7)
        with self.assertRaises(ValueError):
            stock.ship_all([("lamp", 2), ("vase", 2)])
        self.assertEqual((stock.quantity("lamp"), stock.quantity("vase")), (5, 1))
        self.assertEqual(stock.ship_all([("lamp", 2), ("vase", 1)]), 13)
        self.assertEqual(stock.items(), ["lamp"])


if __name__ == "__main__":
    unittest.main()
