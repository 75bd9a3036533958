"""`--model local:FILE` with the real llama.cpp and a real model of 135 million parameters.

It is too small to find anything: what is tested is everything around it.
"""

import asyncio
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from run_specialist.api.runner import Runner
from run_specialist.errors import UsageError

SHORT = 48
"""Maximum length of a first attempt and of a landing; the model may repeat itself without end [tokens]."""
MAIN = f"""
import sys
from run_specialist.cli.ask import main
from run_specialist.loop import account, transcript
account.MAX_TOKENS = transcript._LANDING_TOKENS = {SHORT}
sys.argv[0] = "run-specialist"
main()
"""
pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def model(tmp_path, monkeypatch, gguf) -> str:
    """Enter a project with a note, a specialist and the model; replies are short, because the context is."""
    root = tmp_path / "project"
    for name in (".git", "specialists"):
        (root / name).mkdir(parents=True)
    (root / "owls.md").write_text("Owls eat mice at night.\n")
    front = "---\nname: finder\ndescription: Finds.\ntools: search\n---\nAnswer the question.\n"
    (root / "specialists" / "finder.md").write_text(front)
    (root / "smol.gguf").symlink_to(gguf)
    monkeypatch.chdir(root)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("SPECIALIST_LOCAL_CONTEXT", "1024")
    return "local:smol.gguf"


def servers(process: psutil.Process) -> list[psutil.Process]:
    """Return the servers that a process has started."""
    return [one for one in process.children() if "llama_process.py" in " ".join(one.cmdline())]


async def test_the_event_loop_continues_while_the_model_loads(model):
    """A run that is prepared knows the context; at the end no process is left."""
    ticks = 0

    async def tick():
        nonlocal ticks
        while True:
            ticks += 1
            await asyncio.sleep(0.01)

    ticking = asyncio.create_task(tick())
    async with Runner(model=model) as runner:
        run = await runner.prepare("finder", "What do owls eat?")
        ticking.cancel()
        (server,) = servers(psutil.Process())
    assert ticks > 5
    assert run.job.provider.capabilities.context_tokens == 1024
    assert not server.is_running()


async def test_the_context_is_that_of_the_model(model, monkeypatch):
    """Without the variable, llama.cpp chooses the context, and reports it."""
    import httpx2

    monkeypatch.delenv("SPECIALIST_LOCAL_CONTEXT")
    async with Runner(model=model) as runner:
        run = await runner.prepare("finder", "What?")
        client = run.job.provider.client
        headers = {"authorization": f"Bearer {client.api_key}"}
        async with httpx2.AsyncClient(base_url=str(client.base_url).removesuffix("/v1/"), headers=headers) as web:
            props = (await web.get("/props")).json()
            refused = await web.get("/props", headers={"authorization": "Bearer other"})
        assert run.job.provider.capabilities.context_tokens == 8192
    assert props["default_generation_settings"]["n_ctx"] == 8192
    assert refused.status_code == 401


def cut_off(whole: str, cut: str) -> None:
    """Write the first half of a file to another one."""
    Path(cut).write_bytes(Path(whole).read_bytes()[:50_000_000])


async def test_a_file_that_is_cut_off_is_refused_with_the_reason_of_llama(model, capfd):
    """The reason comes from the log of llama.cpp, of which nothing reaches the terminal."""
    cut_off("smol.gguf", "cut.gguf")
    async with Runner(model="local:cut.gguf") as runner:
        with pytest.raises(UsageError, match=r"local:cut\.gguf`: .*not within the file bounds, model is corrupted"):
            await runner.prepare("finder", "What?")
    assert capfd.readouterr() == ("", "")


def test_the_command_prints_the_answer_and_nothing_of_llama(model):
    """Standard output has the outcome, with the model and its tokens; standard error has lines of this program only."""
    flags = ["finder", "What do owls eat?", "--model", model, "--json", "--tool-calls-limit", "0"]
    done = subprocess.run([sys.executable, "-c", MAIN, *flags], capture_output=True, text=True, check=False)
    outcome = json.loads(done.stdout)
    assert (done.returncode, outcome["model"]) == (0, model)
    assert outcome["status"] in {"answered", "landed", "partial"}
    assert outcome["answer"]
    assert outcome["usage"]["output_tokens"] > 0
    # Warnings of the run itself: the model may write until its reply is cut off.
    assert all(line.startswith("run-specialist: ") for line in done.stderr.splitlines())
    assert "llama" not in done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_the_server_ends_with_the_command(model, number):
    """Ctrl-C while the model loads or answers, or a killed process, leaves no server behind."""
    command = [sys.executable, "-c", MAIN, "finder", "Tell me everything about owls.", "--model", model, "--quiet"]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE) as process:
        while not (found := servers(psutil.Process(process.pid))):
            os.sched_yield()
        process.send_signal(number)
        process.communicate()
    gone, alive = psutil.wait_procs(found, timeout=30)
    assert (len(gone), alive) == (1, [])
