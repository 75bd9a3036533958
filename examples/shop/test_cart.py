"""Tests of the cart. One fails: the example is made to be explained."""

import unittest

from shop.cart import total


class TestTotal(unittest.TestCase):
    """The total with and without discount."""

    def test_no_discount_for_nine(self):
        """Nine pieces cost nine times the price."""
        self.assertEqual(total([(100, 9)]), 900)

    def test_discount_from_ten(self):
        """Ten pieces get the discount."""
        self.assertEqual(total([(100, 10)]), 950)

    def test_discount_for_each_line(self):
        """Only the line with many pieces gets it."""
        self.assertEqual(total([(100, 20), (50, 1)]), 1950)
