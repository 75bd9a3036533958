import os
import subprocess
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from run_specialist.store.location import NONE, Location, place, shown


def test_the_flag_beats_the_environment_and_that_the_default(monkeypatch, tmp_path):
    """Who is named, is named; the default is nobody's word."""
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
    """Without a scheme, it becomes absolute, so a change of the folder harms nothing."""
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
    """It is a word, not a file."""
    assert place(word) == Location(NONE, named=True)


@given(st.text(st.characters(codec="ascii", min_codepoint=33), min_size=1).filter(lambda word: word not in "***:@/"))
def test_a_password_is_never_shown(password):
    """However it is written, in front of the host or behind the question mark."""
    password = f"<{password}>"
    assert password not in shown(f"postgresql://me:{password}@host:5432/runs")
    if "&" not in password:
        assert password not in shown(f"postgresql://me@host/runs?sslmode=require&password={password}")


def test_what_is_no_secret_is_shown():
    """Who reads the line must see which store is meant."""
    assert shown("postgresql://me:secret@host:5432/runs?sslmode=require") == (
        "postgresql://me:***@host:5432/runs?sslmode=require"
    )
    assert shown("postgresql://me@host:5432/runs") == "postgresql://me@host:5432/runs"


def test_asking_for_the_place_costs_no_library():
    """Every start asks, also those that store nothing."""
    script = (
        "import sys; from run_specialist.store.location import place; place('x.db'); "
        "print([one for one in ('sqlalchemy', 'alembic', 'platformdirs', 'sqlite3') if one in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
