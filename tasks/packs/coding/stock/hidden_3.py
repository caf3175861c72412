import unittest

from stock import Stock


class Hidden(unittest.TestCase):
    def test_lines_of_one_item_add_up(self):
        stock = Stock()
        stock.receive("lamp", 3, 1)
        with self.assertRaises(ValueError):
            stock.ship_all([("lamp", 2), ("lamp", 2)])
        self.assertEqual(stock.quantity("lamp"), 3)

    def test_what_is_reserved_is_left_alone(self):
        stock = Stock()
        stock.receive("lamp", 3, 1)
        stock.reserve("a", "lamp", 2)
        with self.assertRaises(ValueError):
            stock.ship_all([("lamp", 2)])
        self.assertEqual((stock.available("lamp"), stock.fulfil("a")), (1, 2))

    def test_a_bad_quantity_changes_nothing(self):
        stock = Stock()
        stock.receive("lamp", 3, 1)
        with self.assertRaises(ValueError):
            stock.ship_all([("lamp", 1), ("lamp", 0)])
        self.assertEqual(stock.quantity("lamp"), 3)

    def test_nothing_costs_nothing(self):
        self.assertEqual(Stock().ship_all([]), 0)

    def test_asking_for_an_item_does_not_list_it(self):
        stock = Stock()
        stock.receive("vase", 1, 1)
        stock.receive("lamp", 1, 1)
        self.assertEqual((stock.quantity("chair"), stock.available("chair")), (0, 0))
        self.assertEqual(stock.items(), ["lamp", "vase"])
