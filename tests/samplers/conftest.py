"""What tests of several samplers share."""

from __future__ import annotations

import pytest


@pytest.fixture
def one_thread():
    """More of them would only wait for each other in models as tiny as ours."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)
