import unittest

from stock import Stock


class Reservations(unittest.TestCase):
    def test_what_is_reserved_cannot_be_shipped(self):
        stock = Stock()
        stock.receive("lamp", 10, 3)
        stock.reserve("A-1", "lamp", 8)
        self.assertEqual((stock.quantity("lamp"), stock.available("lamp")), (10, 2))
        with self.assertRaises(ValueError):
            stock.ship("lamp", 3)
        self.assertEqual(stock.fulfil("A-1"), 24)
        self.assertEqual((stock.quantity("lamp"), stock.available("lamp")), (2, 2))


if __name__ == "__main__":
    unittest.main()
