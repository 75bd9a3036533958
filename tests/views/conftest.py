"""Page data for the tests of this folder."""

import pytest

from run_specialist.views.report import data
from tests.views.full import full_run


@pytest.fixture(scope="module")
def full():
    """Provide the page data of the run that has nearly every feature."""
    return data(full_run())
