"""`specialists report EVAL` writes the page of an eval."""

import json

from tests.cli.evals.eval_model import looks
from tests.cli.specialists_command import call

POET = "model: haiku", "tools: []"


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
