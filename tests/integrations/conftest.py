"""The code of the guide to integrations."""

from __future__ import annotations

import pytest

from project import blocks


@pytest.fixture
def run_guide(monkeypatch, capsys):
    """Runs the guide's code for a module with a server of these texts; returns what it prints."""
    upstreams = pytest.importorskip("upstream", reason="needs the extra minrisk[serve]")

    def run(module, *texts):
        [code] = [one for one in blocks("docs/guides/integrations.md", "py")
                  if f"minrisk.integrations.{module} " in one]
        with upstreams.mock_upstream(*texts) as upstream:
            for name in ("OPENAI_BASE_URL", "OPENAI_API_BASE"):
                monkeypatch.setenv(name, upstream.url)
            monkeypatch.setenv("OPENAI_API_KEY", "x")
            exec(code, {})
            assert len(upstream.bodies) >= 8
        return capsys.readouterr().out

    return run
