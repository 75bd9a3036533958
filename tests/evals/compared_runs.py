"""Results of evals with given scores, to compare."""

from run_specialist.evals.plan import CaseRun, Check, EvalResult, Variant

BASE = Variant("main", "a.md", "1", is_baseline=True)
NEW = Variant("as it is", "a.md", "2")


def case_run(case, variant, *values, repeat=1, **changed):
    """Return a run whose checks `check 1`, `check 2`, ... have these values."""
    checks = tuple(Check(f"check {number}", value) for number, value in enumerate(values, 1))
    given = {"run_id": f"{variant}-{case}-{repeat}", "status": "answered", "checks": checks}
    return CaseRun(case=case, variant=variant, repeat=repeat, **(given | changed))


def result_of(before, after, *, more=None, **changed):
    """Return the result of an eval with one run a case and variant.

    before, after: a score for each case; None = it did not begin.
    more: scores of further variants, by name.
    """
    given = {"main": before, "as it is": after} | (more or {})
    runs = [
        case_run(f"case {at}", name, score, **changed)
        for name, scores in given.items()
        for at, score in enumerate(scores, 1)
        if score is not None
    ]
    variants = (BASE, NEW, *(Variant(name, "a.md", "3") for name in more or {}))
    cases = tuple(f"case {at}" for at in range(1, max(len(before), len(after)) + 1))
    return EvalResult("e1", "looker", cases, variants, tuple(runs))
