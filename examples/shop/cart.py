"""The total of a cart."""

DISCOUNT_FROM = 10
DISCOUNT_PERCENT = 5


def total(lines):
    """Return the total in cents.

    lines: pairs of price in cents and number of pieces.
    """
    amount = 0
    for price, pieces in lines:
        line = price * pieces
        if pieces > DISCOUNT_FROM:
            line -= line * DISCOUNT_PERCENT // 100
        amount += line
    return amount
