"""The data of a page, for the tests of this folder."""

import pytest

from run_specialist.views.report import data
from tests.views.full import full_run


@pytest.fixture(scope="module")
def full():
    """Give the page's data of the run in which nearly everything happens."""
    return data(full_run())
