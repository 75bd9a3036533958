"""Names of files with the expected answers of an eval; the file tools hide them unless `paths` names them.

A specialist that searches a project would find the question word for word, with what a right answer must contain.
"""

_EXTENSIONS = (".evals.yaml", ".evals.yml")
_PATH = "evals/evals.json"
"""The name in the convention of agent skills."""
_WILDCARDS = str.maketrans("", "", "*?")


def holds_expected_answers(relative: str) -> bool:
    """Return whether a file holds the cases of an eval, by its name.

    relative: path relative to the root.
    """
    folded = relative.casefold()
    return folded.endswith(_EXTENSIONS) or f"/{folded}".endswith(f"/{_PATH}")


def names_expected_answers(above: str, part: str) -> bool:
    """Return whether a component of a specialist's `paths` names such a file, and does not merely match it.

    above: the component before it.
    part: a name or a glob; `a.evals.yaml` and `*.evals.yaml` do, `*.yaml` does not.
    """
    return holds_expected_answers(f"{above}/{part.translate(_WILDCARDS)}")
