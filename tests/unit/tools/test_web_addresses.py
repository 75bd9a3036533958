"""Which addresses and URLs a page may come from."""

import ipaddress
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.errors import ToolError
from run_specialist.tools.web import LONGEST, checked, is_public

INSIDE = re.findall(
    r"\S+",
    """127.0.0.1 127.8.9.10 0.0.0.0 10.0.0.1 172.16.0.1 192.168.1.1 169.254.169.254 100.64.0.1 192.0.0.1 198.18.0.1
    224.0.0.1 239.1.2.3 240.0.0.1 255.255.255.255 :: ::1 ::ffff:127.0.0.1 ::ffff:10.0.0.1 fe80::1 fe80::1%eth0 fc00::1
    fd00:ec2::254 fec0::1 ff02::1 2002:7f00:1:: 2002:a9fe:a9fe:: 64:ff9b::7f00:1 64:ff9b::a9fe:a9fe 2001::1
    2001:0:7f00:1::1 2001:db8::1 100::1 3fff::1 5f00::1 168.63.129.16 ::ffff:168.63.129.16 64:ff9b::a83f:8110
    192.88.99.1 100.100.100.200 192.0.0.192 64:ff9b:1::1 64:ff9b:1::101:101 64:ff9b:1:ffff::808:808
    ::ffff:0:127.0.0.1 ::ffff:0:169.254.169.254 ::127.0.0.1 ::10.0.0.1 ::169.254.169.254 ::168.63.129.16 ::2
    2606:4700::5efe:10.0.0.1 2606:4700::200:5efe:7f00:1 2002:a83f:8110:: fd20:ce::254 fe80::a9fe:a9fe""",
)
OUTSIDE = ["1.1.1.1", "93.184.216.34", "2606:4700:4700::1111", "64:ff9b::101:101", "2002:101:101::"]


@pytest.mark.parametrize("address", INSIDE)
def test_addresses_inside_are_not_public(address):
    """Loopback, private, link-local and metadata addresses are not public, nor is IPv6 that leads to one."""
    assert not is_public(address)


@pytest.mark.parametrize("address", OUTSIDE)
def test_addresses_outside_are_public(address):
    """Addresses of the internet are public, also as IPv6 that leads to one."""
    assert is_public(address)


@given(st.ip_addresses(v=4))
def test_ipv4_inside_ipv6_is_judged_like_itself(address):
    """An IPv4 address in any of its IPv6 forms is never more public than itself."""
    forms = [f"::ffff:{address}", str(ipaddress.IPv6Address((0x64FF9B << 96) | int(address)))]
    forms.append(str(ipaddress.IPv6Address((0x2002 << 112) | (int(address) << 80))))
    forms += [f"::{address}", f"::ffff:0:{address}", f"64:ff9b:1::{address}", f"2606:4700::5efe:{address}"]
    assert all(is_public(str(address)) >= is_public(form) for form in forms)


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("file:///etc/passwd", "only http:// and https://"),
        ("ftp://example.com/", "only http:// and https://"),
        ("gopher://127.0.0.1:6379/", "only http:// and https://"),
        ("javascript:alert(1)", "only http:// and https://"),
        ("example.com", "only http:// and https://"),
        ("http://", "only http:// and https://"),
        ("http://[::1/", "no valid URL"),
        ("http://example.com:99999/", "no valid URL"),
        ("http://key:word@example.com/", "user name or a password"),
        ("http://example.com/a b", "no valid URL"),
        ("http://example.com/" + "a" * LONGEST, "no valid URL"),
        ("", "only http:// and https://"),
    ],
)
def test_urls_that_are_not_fetched(url, reason):
    """A URL of another kind, with credentials, too long or damaged is refused with the reason, in one line."""
    with pytest.raises(ToolError, match=reason) as caught:
        checked(url, ())
    assert "\n" not in str(caught.value)


def test_allowed_domains_hold_for_subdomains_and_redirects():
    """An allowed domain includes its subdomains, in any case and with a final dot, but no lookalike."""
    allowed = ["Example.com"]
    for host in ("example.com", "docs.example.com", "EXAMPLE.COM.", "a.b.example.com"):
        assert checked(f"https://{host}/x#part", allowed).endswith("/x")
    for host in ("notexample.com", "example.com.evil.org", "example.org", "1.1.1.1"):
        with pytest.raises(ToolError, match=r"not allowed; allowed_domains: Example\.com"):
            checked(f"https://{host}/", allowed)
    with pytest.raises(ToolError, match="not allowed"):
        checked("//evil.org/", allowed, base="https://example.com/")
    assert checked("../b?c=1", allowed, base="https://example.com:8443/a/") == "https://example.com:8443/b?c=1"
