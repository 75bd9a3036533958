"""Raise the limit of open connections for benchmarks with many children."""

import resource

ENOUGH = 16_384


def allow() -> None:
    """Raise the limit of open files to `ENOUGH`, or as far as the system allows."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if most == resource.RLIM_INFINITY else min(ENOUGH, most)
    if now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
