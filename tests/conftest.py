"""What every test shares: random numbers drawn while a test file is read are the same in each run."""

import pytest
import torch


def pytest_collectstart(collector):
    if isinstance(collector, pytest.Module):
        torch.manual_seed(0)
