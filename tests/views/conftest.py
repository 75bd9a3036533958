"""Page data and a browser for the tests of this folder."""

import pytest

from run_specialist.views.report import data
from tests.browser import browser
from tests.views.full import full_run


@pytest.fixture(scope="module")
def full():
    """Provide the page data of the run that has nearly every feature."""
    return data(full_run())


@pytest.fixture(scope="module")
def tab(tmp_path_factory):
    """Provide a browser tab that the tests of a module share."""
    with browser(tmp_path_factory.mktemp("browser")) as opened:
        yield opened
