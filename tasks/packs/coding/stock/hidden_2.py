import unittest

from stock import Stock


def filled():
    stock = Stock()
    stock.receive("lamp", 4, 1)
    stock.receive("lamp", 4, 2)
    return stock


class Hidden(unittest.TestCase):
    def test_a_cancelled_reservation_is_free_again(self):
        stock = filled()
        stock.reserve("a", "lamp", 8)
        stock.cancel("a")
        self.assertEqual((stock.available("lamp"), stock.ship("lamp", 8)), (8, 12))

    def test_lots_are_taken_when_an_order_is_fulfilled(self):
        stock = filled()
        stock.reserve("a", "lamp", 4)
        self.assertEqual(stock.ship("lamp", 4), 4)
        self.assertEqual(stock.fulfil("a"), 8)

    def test_no_more_than_is_available_can_be_reserved(self):
        stock = filled()
        stock.reserve("a", "lamp", 5)
        for quantity in (4, 0, -1):
            with self.assertRaises(ValueError):
                stock.reserve("b", "lamp", quantity)
        stock.reserve("b", "lamp", 3)
        self.assertEqual(stock.available("lamp"), 0)

    def test_an_order_reserves_once(self):
        stock = filled()
        stock.reserve("a", "lamp", 1)
        with self.assertRaises(ValueError):
            stock.reserve("a", "lamp", 1)
        self.assertEqual(stock.available("lamp"), 7)

    def test_orders_that_are_not_there(self):
        stock = filled()
        stock.reserve("a", "lamp", 1)
        stock.fulfil("a")
        for call in (stock.cancel, stock.fulfil):
            with self.assertRaises(KeyError):
                call("a")

    def test_a_reservation_does_not_change_the_value(self):
        stock = filled()
        stock.reserve("a", "lamp", 8)
        self.assertEqual(stock.value(), 12)
