"""Memory and threads of a machine, within the limits of a container."""

import os

import pytest

from run_specialist.providers.local import machine

MIB = 2**20


@pytest.fixture
def group(tmp_path, monkeypatch):
    """Return the folder of the control group, which is empty."""
    monkeypatch.setattr(machine, "_CGROUP", tmp_path)
    monkeypatch.setattr(machine, "_SMT", tmp_path / "smt")
    monkeypatch.setattr(os, "sched_getaffinity", lambda _: set(range(16)))
    return tmp_path


@pytest.mark.parametrize(
    ("smt", "quota", "threads"),
    [
        ("", "", 16),
        ("1\n", "", 8),
        ("0\n", "", 16),
        ("1", "150000 100000\n", 2),
        ("", "max 100000\n", 16),
        ("", "1 9", 1),
    ],
)
def test_one_thread_for_each_core_within_the_quota(group, smt, quota, threads):
    """Two threads of one core count once, and the quota of a container is an upper bound."""
    (group / "smt").write_text(smt)
    (group / "cpu.max").write_text(quota)
    assert machine.useful_threads() == threads


def test_memory_is_what_the_container_has_left(group, monkeypatch):
    """The files that the kernel keeps in memory can be dropped, and so count as free."""
    monkeypatch.setattr(machine, "_available", lambda: 8000 * MIB)
    assert machine.free_memory() == 8000 * MIB
    (group / "memory.max").write_text("max\n")
    assert machine.free_memory() == 8000 * MIB
    (group / "memory.max").write_text(f"{1000 * MIB}\n")
    (group / "memory.current").write_text(f"{700 * MIB}\n")
    assert machine.free_memory() == 300 * MIB
    (group / "memory.stat").write_text(f"anon 1\ninactive_file {500 * MIB}\n")
    assert machine.free_memory() == 800 * MIB


def test_the_real_machine_has_memory(monkeypatch):
    """The kernel tells what is available; elsewhere all memory of the machine counts."""
    total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    assert 0 < machine._available() <= total
    monkeypatch.setattr(machine, "_available", lambda: None)
    assert 0 < machine.free_memory() <= total
