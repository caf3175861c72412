import unittest

from stock import Stock


class Lots(unittest.TestCase):
    def test_the_oldest_leave_first(self):
        stock = Stock()
        stock.receive("lamp", 10, 3)
        stock.receive("lamp", 10, 4)
        self.assertEqual(stock.ship("lamp", 12), 38)
        self.assertEqual((stock.quantity("lamp"), stock.value()), (8, 32))

    def test_more_than_there_is(self):
        with self.assertRaises(ValueError):
            Stock().ship("lamp", 1)


if __name__ == "__main__":
    unittest.main()
