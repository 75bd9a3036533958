"""Private keys are masked completely, also when truncated at either end or when only the middle is shown."""

import base64
import random

import pytest

from run_specialist.safety.credentials import MASK, lines_without_keys
from run_specialist.safety.redact import redact

BODY = base64.b64encode(random.Random(1).randbytes(48 * 12 + 20)).decode()  # noqa: S311 - not used for secrets
LINES = [BODY[at : at + 64] for at in range(0, len(BODY), 64)]
WIDE = [BODY[at : at + 70] for at in range(0, len(BODY), 70)]
DASHES = "-" * 5
KINDS = ["PRIVATE KEY", "RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "ENCRYPTED PRIVATE KEY"]
KINDS += ["PGP PRIVATE KEY BLOCK"]


def key(kind: str = "PRIVATE KEY", lines: list[str] = LINES, end: str = "\n") -> str:
    """Return a private key in the format of RFC 7468."""
    return end.join([f"{DASHES}BEGIN {kind}{DASHES}", *lines, f"{DASHES}END {kind}{DASHES}"])


def shows(text: str) -> list[str]:
    """Return the pieces of the key that a text contains."""
    return [BODY[at : at + 12] for at in range(len(BODY) - 11) if BODY[at : at + 12] in text]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("end", ["\n", "\r\n", "\\n"])
def test_a_complete_key_becomes_one_mask(kind, end):
    """A complete key becomes one mask, also when its lines are joined by escapes, as in JSON."""
    assert redact(f"a {key(kind, end=end)} b") == f"a {MASK} b"


@pytest.mark.parametrize("prefix", ["", "{:>6}\t", "keys/a.pem-{}- ", "    ", "# ", '"', "+"])
@pytest.mark.parametrize("lines", [LINES, WIDE])
@pytest.mark.parametrize(("first", "last"), [(0, None), (0, 6), (3, 8), (5, None)])
def test_any_part_of_a_truncated_key_is_masked(prefix, lines, first, last):
    """A key's beginning, middle or end alone is masked, also behind line prefixes that tools add."""
    whole = key("OPENSSH PRIVATE KEY", lines).split("\n")[first:last]
    text = "\n".join(f"{prefix.format(number)}{line}" for number, line in enumerate(["before", *whole, "after"], 1))
    hidden = redact(text)
    assert shows(hidden) == []
    assert "before" in hidden
    assert hidden.endswith("after")


def test_a_key_that_begins_in_the_line_of_its_label_is_masked():
    """A key that was put on one line, and cut before its end, is masked, also with other lines around it."""
    for blank in ("", " "):
        text = f"{DASHES}BEGIN RSA PRIVATE KEY{DASHES}{blank}{BODY[:500]}"
        assert redact(f"before\n{text}") == f"before\n{MASK}"
        assert redact(f"before\n{text}\nthe text after it") == f"before\n{MASK}\nthe text after it"


def test_lines_without_labels_are_masked_also_if_they_begin_with_a_plus():
    """Base64 may begin with the mark of a diff."""
    lines = [f"+{LINES[0][1:]}", f"+{LINES[1][1:]}", LINES[2], LINES[3]]
    for mark in ("", "+"):
        hidden = redact("\n".join(["before", *(f"{mark}{line}" for line in lines), "after"]))
        assert hidden.removesuffix("\nafter").replace("+", "") == "\n".join(["before", *[MASK] * 4])


def test_keys_with_headers_or_a_checksum_are_masked():
    """An old encrypted key with headers and a PGP block with a checksum are masked."""
    for lines in (["Proc-Type: 4,ENCRYPTED", "DEK-Info: AES", "", *LINES], ["Version: 2", "", *LINES, "=aB3d"]):
        assert redact(f"a\n{key('RSA PRIVATE KEY', lines)}\nb") == f"a\n{MASK}\nb"
        cut = "\n".join(key("RSA PRIVATE KEY", lines).split("\n")[:6])
        assert shows(redact(f"a\n{cut}")) == []


@pytest.mark.parametrize(
    "text",
    [
        f"between `{DASHES}BEGIN PRIVATE KEY{DASHES}` and `{DASHES}END PRIVATE KEY{DASHES}` there is base64",
        f'MARK = "{DASHES}BEGIN PRIVATE KEY{DASHES}"\nfor line in file:\n    continue\n',
        f"{DASHES}BEGIN PRIVATE KEY{DASHES}\n...\n{DASHES}END PRIVATE KEY{DASHES}",
        key("PUBLIC KEY"),
        key("CERTIFICATE"),
        "\n".join(key("CERTIFICATE").split("\n")[:5]),
        "\n".join(["a", *("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08" for _ in range(4)), "b"]),
        "\n".join(["a", *(BODY[at : at + 76] for at in range(0, 456, 76)), "b"]),
        "\n".join(["a", "=" * 64, "-" * 64, "word" * 16, "word" * 16, "b"]),
    ],
)
def test_text_that_is_no_private_key_is_unchanged(text):
    """Text about keys, certificates, digests, mail attachments and table rules is unchanged."""
    assert redact(text) == text


def test_lines_after_a_masked_key_keep_their_numbers():
    """Each line between a key's first and last line is masked separately; the lines after it are unchanged."""
    lines = ["a", *key().split("\n"), "b", f'c = "{DASHES}BEGIN PRIVATE KEY{DASHES}"', "pass", "d"]
    hidden = list(lines_without_keys((line, len(line)) for line in lines))
    assert [line for line, _ in hidden] == ["a", lines[1], *[MASK] * len(LINES), lines[-5], *lines[-4:]]
    assert all(length == len(line) for line, length in hidden)


def test_putty_private_lines_are_masked():
    """The private lines of a PuTTY key, counted in the line before them, are masked."""
    count = len(LINES)
    lines = ["PuTTY-User-Key-File-3: ssh-rsa", "Public-Lines: 1", "AAAAB3NzaC1yc2E", f"Private-Lines: {count}", *LINES]
    lines += ["Private-MAC: 0a1b"]
    hidden = redact("\n".join(lines)).split("\n")
    assert hidden == [*lines[:4], *[MASK] * count, lines[-1]]
