"""Names of files with the expected answers of an eval; the file tools hide them unless `paths` names them.

A specialist that searches a project would find the question word for word, with what a right answer must contain.
"""

_EXTENSIONS = (".evals.yaml", ".evals.yml")
_PATH = "evals/evals.json"
"""The name in the convention of agent skills."""


def holds_expected_answers(relative: str) -> bool:
    """Return whether a file holds the cases of an eval, by its name.

    relative: path relative to the root, or a glob for such names: `*.evals.yaml`, but not `*.yaml`.
    """
    folded = relative.casefold()
    return folded.endswith(_EXTENSIONS) or f"/{folded}".endswith(f"/{_PATH}")
