"""Gives every test the same environment, independent of the user, shell or service that started pytest.

A process inherits more than its arguments: ignored and blocked signals, the umask, and variables that change the time
zone, the language, colours, proxies, keys and endpoints. A test that needs another value sets it.
"""

import os
import signal
import sys
import time
from pathlib import Path

import pytest

from tests.forked_program import fork_children_of_event_loops
from tests.program_forks import notice_signals

LOCAL_SERVERS = ("OLLAMA_", "LMSTUDIO_", "LLAMACPP_", "VLLM_")
PREFIXES = ("ANTHROPIC_", "OPENAI_", *LOCAL_SERVERS, "SPECIALIST_", "XDG_", "OTEL_", "PG", "LC_")
PYTHON = {f"PYTHON{name}" for name in ("ASYNCIODEBUG", "DEVMODE", "IOENCODING", "UNBUFFERED", "UTF8", "WARNINGS")}
TERMINAL = {"CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "COLUMNS", "FORCE_COLOR", "LINES", "NO_COLOR", "TERMINAL_WIDTH"}
NAMES = {"CI", "GITHUB_ACTIONS", "LANGUAGE", "PY_COLORS", *PYTHON, *TERMINAL}
PROXIES = {"http_proxy", "https_proxy", "all_proxy", "no_proxy"}
FIXED = {
    "LANG": "C.UTF-8",
    "SPECIALIST_STORE": "none",
    # One certificate authority instead of the machine's list, which takes each client 20 ms to load.
    "SSL_CERT_FILE": str(Path(__file__).with_name("certificate.pem")),
    "TERM": "xterm-256color",
    "TZ": "UTC",
}
UMASK = 0o022


def pytest_configure(config: pytest.Config) -> None:
    """Prepare this process: a worker of pytest-xdist, the process that starts the workers, or the only one."""
    _keep_bytecode(config.rootpath)
    if runs_tests(config):
        given = dict(os.environ)
        os.environ.clear()
        os.environ.update(usual(given))
        _reset_signals()
        os.umask(UMASK)
        time.tzset()
        fork_children_of_event_loops()
    else:
        # Workers must read files as UTF-8 in any locale, which Python decides before it runs any code.
        os.environ["PYTHONUTF8"] = "1"


def runs_tests(config: pytest.Config) -> bool:
    """Return False in the process that only distributes tests to workers."""
    return hasattr(config, "workerinput") or config.getoption("dist") == "no"


def usual(env: dict[str, str]) -> dict[str, str]:
    """Return an environment without what the user has set."""
    kept = {
        name: env[name] for name in env if not (name.startswith(PREFIXES) or name in NAMES or name.lower() in PROXIES)
    }
    return kept | FIXED


def _reset_signals() -> None:
    """Let child processes start with the default action for each signal, even if this process ignores some.

    Child processes inherit ignored signals but not handlers. A handler that does nothing therefore keeps the effect of
    `nohup` in this process only. Ctrl-C gets Python's own handler, which tests in this process expect.
    """
    notice_signals(lambda *_: None)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


def _keep_bytecode(root: Path) -> None:
    """Compile each module once, instead of in each of the hundreds of processes that the tests start.

    If PYTHONDONTWRITEBYTECODE forbids bytecode beside the sources, it is stored in pytest's cache folder.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode = False
        sys.pycache_prefix = os.environ["PYTHONPYCACHEPREFIX"] = str(root / ".pytest_cache" / "bytecode")
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.fixture(scope="session", autouse=True)
def _home(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Set an empty home folder for the session, so that programs neither read nor write the user's settings."""
    os.environ["HOME"] = str(tmp_path_factory.mktemp("home"))
