"""Connections, variables, imports and programs of a project's file need trust, and need it again after a change."""

import pytest

from tests.projects import project
from tests.secrets.canaries import values_with_secret
from tests.secrets.echo import EchoOfTools, serving

KEY = "zebra-cardigan-lamplight-quokka"


@pytest.fixture
def app(notes):
    """A project with a package that has a unique name."""
    with project(notes) as made:
        yield made


@pytest.mark.parametrize("entry", ["{url: 'URL/${SOME_KEY}'}", "{url: 'URL', headers: {A: '${SOME_KEY}'}}", "'URL'"])
@pytest.mark.parametrize("listed", [False, True])
def test_nothing_is_sent_to_a_local_url_without_trust(app, ask, write, monkeypatch, *, entry, listed):
    """Nothing is sent to a local URL without trust, as any user may listen there; the error names variables only."""
    monkeypatch.setenv("SOME_KEY", KEY)
    with serving(EchoOfTools) as server:
        entry = entry.replace("URL", f"{server.url}/lists")
        if listed:
            written = entry if entry.startswith("{") else f"{{url: {entry}}}"
            shape = written.replace("'", '"').replace("{url", '{"url"').replace("headers: {A", '"headers": {"A"')
            (app.root / ".mcp.json").write_text(f'{{"mcpServers": {{"web": {shape}}}}}')
            write("finder", "mcp_servers: [web]")
        else:
            write("finder", f"mcp_servers: {{web: {entry}}}")
        code, out, err = ask()
        assert server.seen == []
        assert (code, out, err.count("\n")) == (2, "", 1)
        assert "finder.md:4:1: mcp_servers: would connect to http://127.0.0.1:" in err
        assert ("with SOME_KEY from the environment" in err) == ("SOME_KEY" in entry)
        assert ask("--trust")[0] == 0
        assert server.seen
        assert values_with_secret(KEY, out, err) == []


@pytest.mark.parametrize("changed", ["PKG/helper.py", "PKG/server.py"])
def test_a_changed_import_or_script_requires_trust_again(app, ask, write, changed):
    """A change to a module that a trusted one imports, or to the script of a trusted command, is refused."""
    app.write("PKG/helper.py", "WORD = 'x'")
    app.write("PKG/server.py", "raise SystemExit('no server')")
    app.write("PKG/tools.py", "from . import helper", "def lookup() -> str:", "    return helper.WORD")
    servers = f"mcp_servers: {{it: {{command: python3 {app.package}/server.py}}}}"
    write("finder", f"python_tools: ['{app.package}.tools:lookup']", servers)
    assert ask("--trust")[0] == 0
    assert ask()[0] == 0
    app.write(changed, "raise SystemExit('changed')")
    code, out, err = ask()
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert "has changed since" in err
