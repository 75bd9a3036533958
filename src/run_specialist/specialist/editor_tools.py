"""Names of tools that only an editor has, because they ask for its windows, its terminal, its tasks or its extensions.

Source: https://code.visualstudio.com/docs/copilot/reference/copilot-vscode-features, "Chat tools".
"""

import re

_OF_EXTENSION = re.compile(r"[\w-]+\.[\w-]+/[\w*-]+")
"""A tool of an extension, which is named by publisher and name, as in `ms-python.python/getPythonEnvironmentInfo`."""
_SETS = frozenset({"browser", "edit", "execute", "read", "search", "vscode", "web"})
"""Sets of the editor's own tools; a slash follows their names."""
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
    """Return whether a name in `tools` is one of a tool that only an editor has."""
    folded = name.strip().lower()
    before, _, own = folded.rpartition("/")
    if before == "vscode" or (before in _SETS | {""} and own in _NAMES):
        return True
    return bool(_OF_EXTENSION.fullmatch(folded))
