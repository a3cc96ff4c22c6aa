"""Tests of this folder run with `pytest -m gpu tests/gpu`, and are skipped where there is no GPU."""

import pytest
import torch


def pytest_collection_modifyitems(items):
    if torch.cuda.is_available():
        return
    for item in items:
        if item.get_closest_marker("gpu"):
            item.add_marker(pytest.mark.skip(reason="no GPU"))
