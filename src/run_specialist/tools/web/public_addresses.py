"""Distinguish public internet addresses from those of this machine, its network and its cloud."""

import ipaddress

_NAT64 = ipaddress.ip_network("64:ff9b::/96")
"""Addresses that a gateway translates to the IPv4 address in their last 32 bits."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    Loopback, private, link-local (cloud metadata), shared, multicast and reserved addresses do not, nor does an IPv6
    address that leads to such an IPv4 address.
    Raises ValueError if it is no IP address.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.is_multicast or not found.is_global:
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return True
    return not found.is_site_local and all(map(is_public, _embedded(found)))


def _embedded(address: ipaddress.IPv6Address) -> list[str]:
    """Return the IPv4 addresses to which packets for an IPv6 address may be forwarded."""
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if address in _NAT64:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [str(one) for one in found if one is not None]
