"""Names of tools that only an editor can offer, because they use its windows, terminal, tasks or extensions.

Source: https://code.visualstudio.com/docs/copilot/reference/copilot-vscode-features, "Chat tools".
"""

import re

_OF_EXTENSION = re.compile(r"[\w-]+\.[\w-]+/[\w*-]+")
"""Pattern for a tool of an extension, e.g. `ms-python.python/getPythonEnvironmentInfo`."""
_SETS = frozenset({"browser", "edit", "execute", "read", "search", "vscode", "web"})
"""Names of the editor's own tool sets; a slash follows them."""
_NAMES = frozenset(
    """
    activepullrequest askquestions changes clickelement copilotcodingagent createandruntask createjupyternotebook
    createnewjupyternotebook createnewworkspace editnotebook extensions getnotebooksummary getprojectsetupinfo
    gettaskoutput getterminaloutput githubrepo githubtextsearch installextension killterminal new newjupyternotebook
    newworkspace openbrowserpage openpullrequest opensimplebrowser problems readcelloutput readnotebookcelloutput
    runnotebookcell runnotebooks runtask runtasks runtest runtests runvscodecommand screenshotpage searchresults
    selection switchagent terminallastcommand terminalselection testfailure updateuserpreferences vscodeapi
    """.split()  # noqa: SIM905, a list of fifty quoted words is harder to read
)


def is_editor_tool(name: str) -> bool:
    """Return whether a name in `tools` belongs to a tool that only an editor can offer."""
    folded = name.strip().lower()
    before, _, own = folded.rpartition("/")
    if before == "vscode" or (before in _SETS | {""} and own in _NAMES):
        return True
    return bool(_OF_EXTENSION.fullmatch(folded))
