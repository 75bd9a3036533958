import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.store.location import NONE, Location, place, shown


def test_the_flag_overrides_the_environment_and_the_default(monkeypatch, tmp_path):
    """The flag overrides the environment variable, which overrides the default; the default is not explicit."""
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    monkeypatch.delenv("SPECIALIST_STORE", raising=False)
    default = place(None)
    assert not default.named
    assert default.url.startswith("sqlite:///")
    assert default.url.endswith("run-specialist/runs.db") or os.name == "nt"
    monkeypatch.setenv("SPECIALIST_STORE", "postgresql://here/runs")
    assert place(None) == Location("postgresql://here/runs", named=True)
    assert place("") == Location("postgresql://here/runs", named=True)
    assert place("postgresql://there/runs") == Location("postgresql://there/runs", named=True)
    monkeypatch.setenv("SPECIALIST_STORE", "")
    assert place(None) == default


def test_a_plain_path_is_an_sqlite_file(monkeypatch, tmp_path):
    """A path without a scheme is an SQLite file; it is made absolute, so changing the directory does no harm."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", "/home/somebody")
    assert place("runs.db").url == f"sqlite:///{tmp_path}/runs.db"
    assert place("sqlite:///runs.db").url == f"sqlite:///{tmp_path}/runs.db"
    assert place("sqlite:////var/runs.db").url == "sqlite:////var/runs.db"
    assert place("~/runs.db").url == "sqlite:////home/somebody/runs.db"
    assert place("~no-such-user/runs.db").url == f"sqlite:///{tmp_path}/~no-such-user/runs.db"
    assert shown(place("runs.db").url) == f"{tmp_path}/runs.db"


@pytest.mark.parametrize("word", ["none", "None"])
def test_none_turns_storing_off(word):
    """`none` turns storing off and is not mistaken for a file name."""
    assert place(word) == Location(NONE, named=True)


@given(st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1).filter(lambda word: word not in "***:@/"))
def test_a_password_is_never_shown(password):
    """A password is never shown, whether it is in front of the host or in the query string."""
    password = f"<{password}>"
    assert password not in shown(f"postgresql://me:{password}@host:5432/runs")
    if "&" not in password:
        assert password not in shown(f"postgresql://me@host/runs?sslmode=require&password={password}")


def test_the_public_parts_of_a_url_are_displayed():
    """The non-secret parts of a URL are shown, so that the reader can see which store is meant."""
    assert shown("postgresql://me:secret@host:5432/runs?sslmode=require") == (
        "postgresql://me:***@host:5432/runs?sslmode=require"
    )
    assert shown("postgresql://me@host:5432/runs") == "postgresql://me@host:5432/runs"


def test_determining_the_location_imports_no_database_library():
    """Determining the location imports no database library, since every start does it, even without a store."""
    script = (
        "import sys; from run_specialist.store.location import place; place('x.db'); "
        "print([one for one in ('sqlalchemy', 'alembic', 'platformdirs', 'sqlite3') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
