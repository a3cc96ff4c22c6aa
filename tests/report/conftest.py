"""Every kind of run, one after the other."""

import pytest
from written_runs import RUNS


@pytest.fixture(params=RUNS, ids=list(RUNS))
def run(request):
    return RUNS[request.param]()
