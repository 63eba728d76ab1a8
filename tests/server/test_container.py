"""The container's file: its steps, in a fresh environment instead of a container."""

from __future__ import annotations

import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
import venv

import pytest
import yaml

from commands import run
from project import ROOT
from upstream import mock_upstream

DOCKERFILE = ROOT / "docker" / "Dockerfile"


def entry_point() -> list[str]:
    [found] = re.findall(r"^ENTRYPOINT (.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    return json.loads(found)


def test_the_container_runs_a_command_that_there_is_as_nobody_special():
    text = DOCKERFILE.read_text()
    assert "\nUSER minrisk\n" in text
    assert "/health" in text
    _, command, *options = entry_point()
    assert run(command, *options, "--help").code == 0


def test_what_it_installs_are_extras():
    [line] = re.findall(r"^ARG EXTRAS=(.*)$", DOCKERFILE.read_text(), re.MULTILINE)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    assert set(line.split(",")) <= project["project"]["optional-dependencies"].keys()


@pytest.mark.parametrize("path", sorted((ROOT / "docker").glob("*.yml")), ids=lambda p: p.name)
def test_the_composition_has_options_that_there_are(path):
    services = yaml.safe_load(path.read_text(encoding="utf-8"))["services"]
    assert run("serve", *services["minrisk"]["command"], "--help").code == 0
    assert all(port.startswith("127.0.0.1:") for port in services["minrisk"]["ports"])


@pytest.mark.slow
def test_the_steps_of_the_file_make_a_server_that_answers(tmp_path):
    """Where no index of packages can be reached, there is nothing to install from."""
    folder = tmp_path / "environment"
    venv.create(folder, with_pip=True)
    [step] = re.findall(r"/opt/minrisk/bin/pip (install .*)$", DOCKERFILE.read_text(),
                        re.MULTILINE)
    words = shlex.split(step.replace("/source", str(ROOT)).replace("$EXTRAS", "serve"))
    done = subprocess.run([folder / "bin" / "pip", *words], capture_output=True, text=True)
    if done.returncode and "No matching distribution" in done.stderr:
        pytest.skip("no index of packages")
    assert done.returncode == 0, done.stderr
    with mock_upstream("a", "b", "a") as own:
        command = [str(folder / "bin" / "minrisk"), *entry_point()[1:], "--upstream", own.url,
                   "--port", "0", "--samples", "3"]
        environment = {k: v for k, v in os.environ.items() if k != "PYTHONPATH"} | {
            "MINRISK_API_KEYS": "k"}
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True,
                              env=environment) as process:
            line = next(line for line in process.stderr if "serving at" in line)
            port = line.rpartition(":")[2].partition("/")[0]
            check = f"import urllib.request as u; print(u.urlopen('http://127.0.0.1:{port}/health').status)"
            seen = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True)
            process.terminate()
    assert seen.stdout.strip() == "200"
