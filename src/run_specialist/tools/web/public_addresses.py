"""Distinguish public internet addresses from those of this machine, its network and its cloud."""

import ipaddress

_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "168.63.129.16/32",  # the host of a virtual machine at Azure
        "192.0.0.0/24",  # protocols, and metadata of some clouds
        "192.88.99.0/24",  # relays from IPv4 to IPv6, no longer in use
        "64:ff9b:1::/48",  # translated by a gateway of the local network
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing within one network
    )
)
"""Addresses that `ipaddress` takes for public."""
_LAST_32_BITS = tuple(ipaddress.ip_network(network) for network in ("64:ff9b::/96", "::ffff:0:0:0/96", "::/96"))
"""Addresses that stand for the IPv4 address in their last 32 bits: NAT64, IPv4-translated and IPv4-compatible ones."""
_ISATAP = frozenset({0x00005EFE, 0x02005EFE})
"""First half of an interface identifier whose second half is an IPv4 address, in any network."""


def is_public(address: str) -> bool:
    """Return whether an IP address belongs to the public internet.

    Loopback, private, link-local (cloud metadata), shared, multicast and reserved addresses do not, nor does an IPv6
    address that leads to such an IPv4 address.
    Raises ValueError if it is no IP address.
    """
    found = ipaddress.ip_address(address.partition("%")[0])
    if found.is_multicast or not found.is_global or any(found in network for network in _NOT_PUBLIC):
        return False
    if isinstance(found, ipaddress.IPv4Address):
        return True
    return not found.is_site_local and all(map(is_public, _embedded(found)))


def _embedded(address: ipaddress.IPv6Address) -> list[str]:
    """Return the IPv4 addresses to which packets for an IPv6 address may be forwarded."""
    found = [address.ipv4_mapped, address.sixtofour, *(address.teredo or ())]
    if any(address in network for network in _LAST_32_BITS) or (int(address) >> 32) & 0xFFFFFFFF in _ISATAP:
        found.append(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF))
    return [str(one) for one in found if one is not None]
