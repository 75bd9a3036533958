"""`specialists eval` runs and judges each case, pays again only for what has changed, and writes pages."""

import json
import select
import signal
from contextlib import suppress

import psutil
import pytest

from run_specialist import run_sync
from tests.cli.evals.eval_model import is_judge, looks, policy, runs_of
from tests.cli.specialists_command import MAIN, call
from tests.wire.simulator.faults import ApiError
from tests.wire.simulator.replies import respond, says


def test_the_cases_are_run_and_checked(api, eval_):
    """A table of cases, a line per failed check with its run, totals; one search and one answer are paid per case."""
    simulator = api(looks)
    result = eval_()
    assert result.exit_code == 0
    head, owls, toads, score, totals = result.stdout.splitlines()
    assert (head.split(), owls.split(), toads.split(), score.split()) == (
        ["CASE", "as", "it", "is"],
        ["owls", "pass", "1.00"],
        ["toads", "pass", "1.00"],
        ["score", "1.00"],
    )
    assert totals.startswith("as it is · 2 of 2 runs passed · $")
    assert "2 tool calls" in totals
    assert len(simulator.requests) == 4
    assert ": 2 cases · no past runs to forecast from" in result.stderr


@pytest.mark.exhaustive
def test_e5_a_failed_check_names_its_run_and_its_reason(api, eval_, cases):
    """The run can be looked at; a score below the least one is exit code 1."""
    api(looks)
    cases("cases:\n- inputs: What about owls?\n  evaluators: [Contains: zebras, CallsUnder: 5]\n")
    result = eval_("--min-score", "0.8")
    run_id = result.stdout.split("specialists report ")[1].split()[0]
    assert "case 1 · as it is: Contains: neither the answer nor its quotes contain 'zebras'" in result.stdout
    assert result.exit_code == 1
    assert call("report", run_id, "--out", "page.html").exit_code == 0
    assert eval_("--min-score", "0.5").exit_code == 0


def test_e2_the_same_command_asks_nothing_and_other_checks_cost_nothing(api, eval_, cases):
    """Runs are used again, also when the expectations have changed; not with --fresh or another question."""
    simulator = api(looks)
    first = eval_("--json")
    again = eval_("--json")
    assert again.stdout == first.stdout
    assert "2 of 2 runs stored already · nothing to ask" in again.stderr
    assert len(simulator.requests) == 4
    second = runs_of(eval_("--fresh", "--json"))
    assert runs_of(eval_("--json")) == second, "the newest runs are used"
    assert {run["run_id"] for run in runs_of(first).values()}.isdisjoint(run["run_id"] for run in second.values())
    text = cases("").with_name("finder.evals.yaml")
    text.write_text("cases:\n- inputs: What about owls?\n  evaluators: [ToolCorrectness: {expected_tools: [search]}]\n")
    assert runs_of(eval_("--json"))["case 1", "as it is", 1]["passed"]
    assert len(simulator.requests) == 8
    text.write_text("cases:\n- inputs: So what about owls?\n")
    eval_()
    assert len(simulator.requests) == 10


@pytest.mark.exhaustive
def test_e3_a_changed_file_asks_the_runs_that_read_it(api, eval_, notes):
    """A note that a run has read has changed: it is made again, not for a new file, unless a search finds that."""
    simulator = api(looks)
    eval_("--case", "owls")
    planned = eval_("--dry-run")
    assert planned.stdout.splitlines()[1:3] == ["stored  owls · as it is", "to run  toads · as it is"]
    eval_()
    (notes / "notes" / "owls.md").write_text("# Owls\n\nOwls eat mice at night. And voles.\n")
    result = eval_()
    assert "1 of 2 runs stored already · 1 run again, because files have changed" in result.stderr
    assert [str(one.messages[0]["content"]).count("owls") > 0 for one in simulator.requests[4:]] == [True, True]
    (notes / "notes" / "bees.md").write_text("# Bees\n\nBees dance.\n")
    assert "nothing to ask" in eval_().stderr
    assert len(simulator.requests) == 6
    (notes / "notes" / "toads2.md").write_text("# Toads\n\nToads jump.\n")
    assert "1 run again, because files have changed" in eval_().stderr


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("line", "path"),
    [("project_instructions: true", "AGENTS.md"), ("memory: project", ".run-specialist/memory/finder/MEMORY.md")],
)
def test_e3_changed_texts_of_the_prompt_ask_again(api, eval_, notes, write, line, path):
    """A stored run is not used again after AGENTS.md or the memory, which its prompt has, was changed."""
    simulator = api(looks)
    write("finder", "model: haiku", "tools: search, read", line)
    for text in "Be brief.", "Be long.":
        (notes / path).parent.mkdir(parents=True, exist_ok=True)
        (notes / path).write_text(text)
        eval_("--trust")
        eval_("--trust")
    assert len(simulator.requests) == 8, "each text is asked once"


@pytest.mark.exhaustive
def test_e1_variants_and_repeats_are_runs_of_their_own(api, eval_, cases):
    """Two limits and two repeats are four stored runs; a case can lower a limit, a flag and a variant come first."""
    simulator = api(looks)
    runs = runs_of(eval_("--json", "--case", "ow*", "--vary", "tool_calls_limit=1,8", "--repeat", "2"))
    assert [*runs] == [("owls", f"tool_calls_limit={limit}", repeat) for limit in (1, 8) for repeat in (1, 2)]
    assert [run["status"] for run in runs.values()] == ["landed", "landed", "answered", "answered"]
    assert len({run["run_id"] for run in runs.values()}) == 4
    assert len(simulator.requests) == 8
    eval_("--case", "owls", "--vary", "tool_calls_limit=8,9", "--repeat", "2")
    assert len(simulator.requests) == 12, "the runs with a limit of 8 were used again"
    api(looks)
    cases("cases:\n- inputs: {question: What about owls?, settings: {tool_calls_limit: 1}}\n")
    assert [run["status"] for run in runs_of(eval_("--json")).values()] == ["landed"]
    assert [run["status"] for run in runs_of(eval_("--json", "--tool-calls-limit", "8")).values()] == ["answered"]
    assert [run["status"] for run in runs_of(eval_("--json", "--vary", "tool_calls_limit=8")).values()] == ["answered"]


@pytest.mark.exhaustive
def test_a_first_set_can_be_written_from_runs(api, eval_, finder):
    """Its cases pass on the runs that it comes from; a set that exists is kept."""
    api(looks)
    eval_()
    path = finder.with_name("new.evals.yaml")
    assert eval_("--new", "--cases", str(path)).exit_code == 0
    again = eval_("--cases", str(path))
    assert again.stdout.count(" pass ") == 2
    assert "nothing to ask" in again.stderr
    refused = eval_("--new")
    assert refused.exit_code == 2
    assert "finder.evals.yaml:1:1: exists already, and was left unchanged" in refused.stderr
    run_sync("codebase-analyst", "What do owls eat?", model="offline")
    installed = call("eval", "codebase-analyst", "--new")
    assert installed.stdout == "codebase-analyst.evals.yaml\n", "the package is left unchanged"
    assert installed.stderr.endswith("specialists eval codebase-analyst --cases codebase-analyst.evals.yaml\n")


def test_e8_p7_wrong_calls_are_one_line(eval_, cases, finder, monkeypatch):
    """Wrong flags, cases and names, a span searched by a pattern, no extra: exit code 2, and nothing is sent."""
    cases("cases:\n- inputs: a\n  evaluators:\n  - HasMatchingSpan: {query: {name_matches_regex: '(a+)+$'}}\n")
    result = eval_()
    assert result.exit_code == 2
    assert "finder.evals.yaml:4:5: HasMatchingSpan: name_matches_regex is not supported" in result.stderr
    cases("cases:\n- inputs: a\n")
    for arguments, part in (
        (("--cases", "none.yaml"), "none.yaml: cannot be read: No such file or directory"),
        (("--vary", "modl=a"), "--vary: unknown setting: modl; did you mean model?"),
        (("--file", "none.md"), "no such file: none.md"),
        (("--case", "b"), "no case is named b; there are case 1"),
    ):
        result = eval_(*arguments)
        assert (result.exit_code, part in result.stderr) == (2, True), result.stderr
    finder.with_name("finder.evals.yaml").unlink()
    assert "finder has no cases; expected finder.evals.yaml beside it" in eval_().stderr
    assert "there is no specialist to run" in call("eval").stderr
    monkeypatch.setattr("run_specialist.cli.console.find_spec", lambda _: None)
    result = eval_()
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert "evals need the extra `eval`; " in result.stderr


@pytest.mark.exhaustive
def test_e4_a_repeat_that_was_left_out_by_a_cost_limit_is_made_later(api, eval_):
    """A limit for part of the runs: the rest is named, and the same command with a higher limit makes only that."""
    simulator = api(looks)
    first = eval_("--repeat", "3", "--at-once", "1", "--cost-limit", "0.0006", "--json")
    made = sum(run["status"] != "not run" for run in runs_of(first).values())
    assert 0 < made < 6
    assert "runs left; repeat the same command to make them" in first.stderr
    paid = len(simulator.requests)
    assert eval_("--repeat", "3").exit_code == 0
    assert len(simulator.requests) - paid <= 2 * (6 - made) + 1


ENDLESS = "cases:\n- {inputs: What about owls?, evaluators: [Regex: '(a+)+$', Contains: mice]}\n"


@pytest.fixture
def says_many(api):
    """Return a simulated model whose answer takes a backtracking search for `(a+)+$` longer than the age of the sun."""
    return api(policy(lambda _: says(respond(f"{'a' * 100}! And mice."))))


@pytest.mark.exhaustive
def test_p7_a_pattern_that_takes_for_ever_ends_with_its_check(says_many, eval_, cases, monkeypatch):
    """It is a check that could not be made, in one line with exit code 4; the other checks hold."""
    cases(ENDLESS)
    with monkeypatch.context() as patched:
        patched.setattr("run_specialist.evals.evaluators.PATTERN_TIMEOUT", 0.5)
        result = eval_()
    assert result.exit_code == 4
    assert result.stdout.count("Regex: '(a+)+$' took longer than 0.5 s; simplify it") == 1
    cases("cases:\n- {inputs: What about owls?, evaluators: [Regex: 'a!? .*mice\\.$']}\n")
    assert eval_().exit_code == 0
    assert len(says_many.requests) == 1


@pytest.mark.exhaustive
def test_p7_ctrl_c_ends_the_command_while_a_pattern_is_searched_for(says_many, program, cases, monkeypatch):
    """One Ctrl-C ends the command with exit code 130, and the search with it."""
    cases(ENDLESS)
    code = f"import run_specialist.evals.evaluators as one; one.PATTERN_TIMEOUT = 1e6\n{MAIN}"
    process = program("eval", "finder", code=code)
    own, found = psutil.Process(process.pid), []
    while not found:
        assert process.poll() is None, process.stderr.read()
        select.select([], [], [], 0.05)
        with suppress(psutil.NoSuchProcess):
            found = [one for one in own.children(recursive=True) if "re.search" in " ".join(one.cmdline())]
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 130
    assert process.stderr.read().splitlines()[-1].endswith("interrupted")
    assert psutil.wait_procs(found, timeout=60)[1] == []


JUDGED = """\
cases:
- name: owls
  inputs: What about owls?
  evaluators: [Judge: It names the prey., Judge: {specialist: answer-judge, rubric: It is about animals.}]
- name: toads
  inputs: What about toads?
  evaluators: [Judge: It names the prey.]
"""


@pytest.mark.exhaustive
def test_e6_judges_are_asked_once_and_are_shown_apart(api, eval_, cases):
    """A judge is a run of its own that is stored; it has its own part of the bill."""
    simulator = api(looks)
    cases(JUDGED)
    result = eval_("--json")
    runs = runs_of(result)
    owls, toads = runs["owls", "as it is", 1], runs["toads", "as it is", 1]
    assert [(one["name"], one["value"]) for one in owls["checks"]] == [
        ("Judge: It names the prey.", True),
        ("Judge: It is about animals.", True),
    ]
    assert [(one["value"], one["reason"]) for one in toads["checks"]] == [(False, "no mice")]
    assert owls["judge_cost_usd"] > toads["judge_cost_usd"] > 0
    assert sum(map(is_judge, simulator.requests)) == 3
    assert " · judges $0.00" in eval_().stdout
    assert sum(map(is_judge, simulator.requests)) == 3, "stored verdicts are used again"
    assert result.exit_code == 0
    repeated = [*runs_of(eval_("--json", "--case", "toads", "--repeat", "2")).values()]
    assert sum(map(is_judge, simulator.requests)) == 3, "equal answers have one judge"
    assert [run["judge_cost_usd"] > 0 for run in repeated] == [True, False], "and one bill"


@pytest.mark.exhaustive
def test_e5_a_judge_that_fails_is_an_error_and_not_a_verdict(api, eval_, cases, notes):
    """The check is missing, the run did not pass, no score is shown, and the exit code says so."""
    cases(JUDGED)
    api(policy(lambda request: ApiError(400, "invalid_request_error", "no") if is_judge(request) else None))
    result = eval_("--json", "--case", "toads")
    run = runs_of(result)["toads", "as it is", 1]
    assert (run["checks"], run["unmade_checks"], run["passed"]) == ([], 1, False)
    assert run["error"].startswith("Judge: answer-judge gave no verdict: ")
    assert result.exit_code == 4
    shown = eval_("--case", "toads", "--min-score", "0.5", "--page", "page.html")
    assert [line.split() for line in shown.stdout.splitlines()[1:3]] == [["toads", "fail", "–"], ["score", "–"]]
    assert shown.exit_code == 4
    assert ">1.00<" not in (notes / "page.html").read_text()


@pytest.mark.exhaustive
def test_e7_the_forecast_has_the_judges_whose_past_runs_are_known(api, eval_, cases):
    """Their cost is shown separately, and counts for --confirm-above; without past runs it is unknown."""
    api(looks)
    cases(JUDGED)
    assert json.loads(eval_("--dry-run", "--json").stdout)["forecast"]["judges_cost_usd"] is None
    first = eval_("--json")
    assert first.stderr.splitlines()[0].endswith(" · judges cost extra")
    paid = sum(run["judge_cost_usd"] for run in runs_of(first).values())
    found = json.loads(eval_("--fresh", "--dry-run", "--json").stdout)["forecast"]
    assert found["judges_cost_usd_90"] >= found["judges_cost_usd"] == pytest.approx(paid, rel=0.1)
    together = found["total_cost_usd_90"] + found["judges_cost_usd_90"]
    refused = eval_("--fresh", "--confirm-above", str(together * 0.99))
    assert (refused.exit_code, "judges about $" in refused.stderr) == (2, True)


def test_e7_the_cost_limit_holds_for_runs_and_judges_together(api, eval_, cases):
    """A limit that is too small for another run leaves it out, and says so; nothing is lost."""
    cases(JUDGED)
    simulator = api(looks)
    result = eval_("--cost-limit", "0", "--json")
    assert result.exit_code == 4
    assert {run["status"] for run in runs_of(result).values()} == {"not run"}
    assert simulator.requests == []


@pytest.mark.parametrize("line", ["effort: low", "output_schema: {type: object, properties: {mark: {type: string}}}"])
def test_e6_a_specialist_without_a_verdict_is_no_judge(line, api, eval_, cases, write):
    """It is refused with its place in the file with the cases, before anything is asked."""
    simulator = api(looks)
    write("poet", "model: haiku", "tools: []", line)
    cases("cases:\n- inputs: What about owls?\n  evaluators: [Judge: {specialist: poet, rubric: a}]\n")
    result = eval_()
    assert result.exit_code == 2
    assert "finder.evals.yaml:3:16: Judge: poet is not a judge: its file has no `output_schema`" in result.stderr
    assert simulator.requests == []


@pytest.mark.exhaustive
def test_e12_the_report_of_an_eval_is_its_page(api, eval_, cases, notes):
    """By the beginning of its id, which that of its judges begins with too; the reports of its runs are linked."""
    api(looks)
    cases("cases:\n- inputs: What about owls?\n  evaluators: [Contains: mice, Judge: It names the prey.]\n")
    result = json.loads(eval_("--json", "--vary", "tool_calls_limit=4,5").stdout)
    written = call("report", result["eval"][:-1], "--out", "page.html", "--with-reports")
    assert (written.exit_code, written.stdout) == (0, "page.html\n")
    page = (notes / "page.html").read_text()
    for part in ("Cannot be told with 1 case whether it differs from tool_calls_limit=4", "it names mice"):
        assert part in page
    for run in result["runs"]:
        report = f"report-{result['eval']}/report-{run['run_id']}.html"
        assert f'href="{report}"' in page
        assert (notes / report).is_file()
    data = json.loads(call("report", result["eval"], "--json").stdout)
    assert data["eval"] == result
    assert data["batch_id"] == result["eval"]
    assert "it names mice" not in call("report", f"{result['eval']}-judges", "--out", "-").stdout.partition("<main")[0]


@pytest.mark.exhaustive
def test_e12_a_page_among_the_files_that_are_read_is_a_warning(api, eval_, notes, tmp_path, write):
    """The specialist would find its answers there; a file outside of the root, or one that is ignored, is none."""
    api(looks)
    warning = "page.html is among the files that finder reads"
    assert warning in eval_("--page", "page.html").stderr
    (notes / "page.html").unlink()
    (notes / ".gitignore").write_text("*.html\n")
    (notes / ".git").mkdir(exist_ok=True)
    assert warning not in eval_("--page", "page.html").stderr
    (notes / ".gitignore").unlink()
    write("finder", "model: haiku", "tools: search, read", "paths: notes")
    assert warning not in eval_("--page", "page.html").stderr
    assert "is among the files" not in eval_("--junit", str(tmp_path.parent / f"{tmp_path.name}.xml")).stderr
