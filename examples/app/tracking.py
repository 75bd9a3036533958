"""Send parcels and remember their numbers."""

import parcelkit as pk

client = pk.Client("https://parcels.example", timeout=5000)


def ship(order):
    """Send the parcel of an order, and return its number."""
    answer = client.send(order.address, weight=order.weight)
    return answer["number"]
