"""Let a process have as many connections as very many children need."""

import resource

ENOUGH = 16_384


def allow() -> None:
    """Raise the limit of open files as far as the system lets a process raise it."""
    now, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = ENOUGH if most == resource.RLIM_INFINITY else min(ENOUGH, most)
    if now < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, most))
