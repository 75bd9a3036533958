"""The header of a GGUF file, which may come from anywhere."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.providers.local import model_files
from run_specialist.providers.local.gguf import ModelHeader, NotGguf, read_header
from run_specialist.providers.local.model_files import MIB, context_that_fits
from tests.gguf_files import gguf, llama

GB = 10**9


@pytest.fixture(scope="module")
def path(tmp_path_factory):
    """A file that each example overwrites."""
    return tmp_path_factory.mktemp("gguf") / "m.gguf"


@pytest.mark.parametrize(
    ("content", "header"),
    [
        (llama(), ModelHeader(8192, 30 * 3 * 128 * 2)),
        (llama(heads=[3] * 10 + [1] * 20), ModelHeader(8192, 50 * 128 * 2)),
        (llama(llama__attention__key_length=128), ModelHeader(8192, 30 * 3 * 192 * 2)),
        (gguf(general__architecture="x", x__context_length=4096), ModelHeader(4096, None)),
        (gguf(2, general__architecture="x"), ModelHeader()),
        (gguf(), ModelHeader()),
        (llama(context=0), ModelHeader(None, 23040)),
        (llama(context="8192"), ModelHeader(None, 23040)),
    ],
)
def test_the_facts_of_a_model_are_read(path, content, header):
    """Context and size of the cache, by layer if the layers differ; missing or wrong values are unknown."""
    path.write_bytes(content)
    assert read_header(path) == header


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "not a GGUF file"),
        (b"PK\x03\x04 a zip", "not a GGUF file"),
        (b"GGUF", "damaged"),
        (gguf(1), "version of GGUF, 1, is not supported"),
        (llama()[:100], "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 2**63), "damaged"),
        (b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<I", 99), "damaged"),
        (
            b"GGUF" + struct.pack("<IQQ", 3, 0, 1) + struct.pack("<Q", 1) + b"k" + struct.pack("<IIQ", 9, 8, 2**62),
            "damaged",
        ),
    ],
)
def test_what_is_no_gguf_file_is_refused_with_a_reason(path, content, reason):
    """A wrong type, a cut file, and lengths that nothing could hold."""
    path.write_bytes(content)
    with pytest.raises(NotGguf, match=reason):
        read_header(path)


@given(st.binary(max_size=200), st.integers(0, 400))
def test_no_file_raises_anything_else(path, noise, at):
    """Bytes overwritten anywhere give a header or a reason."""
    content = bytearray(llama())
    content[at : at + len(noise)] = noise
    path.write_bytes(content)
    try:
        header = read_header(path)
    except NotGguf as error:
        header = str(error)
    assert header


@pytest.mark.parametrize(
    ("header", "size", "free", "context"),
    [
        (ModelHeader(8192, 23040), GB // 10, 24 * GB, 8192),
        (ModelHeader(131072, 131072), 5 * GB, 16 * GB, 39680),
        (ModelHeader(131072, 131072), 5 * GB, 6 * GB, 2048),
        (ModelHeader(1024, 131072), 5 * GB, 1 * GB, 1024),
        (ModelHeader(131072, 131072), 5 * GB, None, 8192),
        (ModelHeader(131072, None), 5 * GB, 64 * GB, 8192),
        (ModelHeader(), 5 * GB, 64 * GB, 8192),
    ],
)
def test_the_context_is_that_of_the_model_as_far_as_its_cache_fits(header, size, free, context):
    """Half of the memory beside the weights is for the cache; unknown values give a moderate length."""
    assert context_that_fits(header, size, free) == context


@given(st.integers(256, 2**20), st.integers(1, 2**20), st.integers(0, 2**40), st.integers(0, 2**42))
def test_the_cache_never_takes_more_than_half_of_what_is_left(longest, per_token, size, free):
    """Except for the shortest context, below which the model is refused as too large."""
    context = context_that_fits(ModelHeader(longest, per_token), size, free)
    assert context <= longest
    left = free - size - 512 * MIB
    assert context * per_token <= left / 2 or context == min(longest, model_files.SHORTEST_CONTEXT)
