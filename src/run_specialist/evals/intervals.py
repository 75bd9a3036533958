"""Confidence intervals of paired differences that are valid for few cases: by flipping signs, and by ranks."""

from collections.abc import Iterator, Sequence
from math import ceil, comb, floor, log2
from random import Random
from statistics import NormalDist, fmean, stdev

POWER = 0.8
"""Probability of detecting the difference with the proposed number of cases."""

_MOST_ENUMERATED = 12
"""Maximum number of differences for which all subsets are enumerated."""
_PAIRS = 2_500
"""Number of random subset-complement pairs that are tried for more differences."""
_FEWEST_PAIRS = 500
_MOST_ADDITIONS = 5_000_000
_SEED = 20_040
_DIGITS = 12
_BYTE = 8

Interval = tuple[float, float]
"""Lower and upper limit."""


def exact(value: float) -> float:
    """Return a difference without floating-point error, so that 0.1 + 0.2 - 0.3 is 0."""
    return round(value, _DIGITS)


def mean_interval(differences: Sequence[float], alpha: float) -> Interval | None:
    """Return the interval of the mean difference, or None if there are too few differences for any.

    It holds the values that a sign-flip test does not reject: if a change has no effect, it excludes 0 with a
    probability of at most `alpha`, whatever the distribution. It contains the mean, and equal values give equal limits.
    Source: Hartigan, "Using subsample values as typical values", JASA 64 (1969) 1303-1317.
    """
    if not differences or len(differences) < fewest_cases(alpha):
        return None
    means = sorted(exact(mean) for mean in _subset_means(differences))
    # The empty subset is the data as they are, and counts on both sides.
    rank = floor(alpha / 2 * (len(means) + 1) + 1e-9)
    return means[rank - 1], means[-rank]


def median_interval(differences: Sequence[float], alpha: float) -> Interval | None:
    """Return the interval of the median difference by the exact sign test, or None if there are too few differences."""
    count = len(differences)
    rank, below = 0, 1
    # `below` of the 2**count sequences of signs have at most `rank` negative ones.
    while count and below <= alpha / 2 * 2**count:
        rank += 1
        below += comb(count, rank)
    ordered = sorted(exact(one) for one in differences)
    return (ordered[rank - 1], ordered[-rank]) if rank else None


def fewest_cases(alpha: float) -> int:
    """Return the minimum number of cases to detect any difference; with fewer, chance too often gives equal signs."""
    return ceil(log2(2 / alpha) - 1e-9)


def cases_needed(differences: Sequence[float], alpha: float) -> int | None:
    """Return the number of cases that would detect a difference with this mean and variance, with a power of `POWER`.

    At least one more than the present number; None if the mean is 0, because no number of cases would detect that.
    The formula is that of a paired t test, to which a sign-flip test is equivalent in large samples:
    n = ((z(1 - alpha/2) + z(power)) * deviation / mean)**2 + z(1 - alpha/2)**2 / 2.
    Source: Guenther, "Sample size formulas for normal theory t tests", The American Statistician 35 (1981) 243-244.
    """
    mean = exact(fmean(differences)) if differences else 0.0
    if not mean:
        return None
    if len(differences) == 1:
        # A single difference has no deviation that could be estimated.
        return fewest_cases(alpha)
    deviation = stdev(differences)
    certain, likely = NormalDist().inv_cdf(1 - alpha / 2), NormalDist().inv_cdf(POWER)
    # A deviation of a million times the mean must give a useless number, not an overflow.
    count = ((certain + likely) * min(deviation / abs(mean), 1e6)) ** 2 + certain**2 / 2
    return max(ceil(count), fewest_cases(alpha), len(differences) + 1)


def _subset_means(values: Sequence[float]) -> Iterator[float]:
    """Yield the means of all subsets but the empty one, or of the whole and of random pairs of complements.

    With each subset its complement is used, so that the mean of all values is never outside the interval.
    """
    if len(values) <= _MOST_ENUMERATED:
        sums = [0.0]
        for chosen in range(1, 2 ** len(values)):
            sums.append(sums[chosen & (chosen - 1)] + values[(chosen & -chosen).bit_length() - 1])
            yield sums[chosen] / chosen.bit_count()
        return
    whole = sum(values)
    yield whole / len(values)
    random = Random(_SEED)  # noqa: S311 - a sample, not a secret
    tables = [_byte_sums(values[at : at + _BYTE]) for at in range(0, len(values), _BYTE)]
    for _ in range(max(min(_PAIRS, _MOST_ADDITIONS // len(tables)), _FEWEST_PAIRS) - 1):
        chosen = random.randrange(1, 2 ** len(values) - 1)
        places = chosen.to_bytes(len(tables), "little")
        part = sum(table[place] for table, place in zip(tables, places, strict=True))
        count = chosen.bit_count()
        yield part / count
        yield (whole - part) / (len(values) - count)


def _byte_sums(values: Sequence[float]) -> list[float]:
    """Return the sums of all subsets of up to eight values, by the bits of the index."""
    sums = [0.0]
    for chosen in range(1, 2 ** len(values)):
        sums.append(sums[chosen & (chosen - 1)] + values[(chosen & -chosen).bit_length() - 1])
    return sums
