"""`minrisk sample` after failures and interruptions: what is kept, and what is drawn again."""

from __future__ import annotations

import signal

import pytest

import openai_server
from commands import read, spawn, wait_for, write
from minrisk.cli import SOME_FAILED
from openai_server import refusing_prompt, status


@pytest.mark.parametrize(("content", "message"), [
    (b'{"source": "one"}\n{"text": "x"}\n', "in:2: found the fields text"),
    (b'{"source": "one"}\n{"source": 3}\n', "in:2: found source 3"),
    (b'{"source": "one"}\n{"prompt": ["x"]}\n', 'in:2: found prompt ["x"]'),
    (b'{"source": "one"}\n{"messages": []}\n', "in:2: found messages []"),
    (b'{"source": "one"}\n{"messages": [{"content": "x"}]}\n', "in:2: found messages"),
    (b'{"source": "one"}\n{"prompt": "a", "messages": []}\n', "in:2: found both"),
    (b'{"source": "one"}\nplain\n', "--input-format text"),
    (b'one\n\xff\n', "in:2: found byte 0xff"),
])
@pytest.mark.parametrize("command", ["sample", "translate"])
def test_a_bad_source_is_told_and_what_came_before_is_kept(
        request, tmp_path, command, content, message):
    path, out = tmp_path / "in", tmp_path / "out"
    path.write_bytes(content)
    result = request.getfixturevalue(command)(path, "-n", "2", "-o", out, "--on-error", "stop")
    assert result.code == 2
    assert message in result.err
    assert "Traceback" not in result.err
    assert not out.exists()
    again = request.getfixturevalue(command)(path, "-n", "2", "-o", out, "--resume")
    assert again.code == SOME_FAILED
    assert "1 segments finished" in again.err
    assert out.read_text().count("\n") == 2


@pytest.mark.parametrize("code", [400, 401, 503])
def test_an_endpoint_that_refuses_is_told_and_what_is_finished_is_kept(
        sample, server, sources, tmp_path, code):
    def moody(handler):
        bad = handler.body["messages"][-1]["content"] == "three"
        (status(code, "not with me") if bad else openai_server.answer)(handler)

    server.always = moody
    out = tmp_path / "out"
    result = sample(sources, "-n", "2", "-o", out, "--batch-size", "1", "--retries", "1",
                    "--on-error", "stop")
    assert result.code == 2
    assert f"{code} not with me" in result.err
    server.always = None
    server.bodies.clear()
    assert sample(sources, "-n", "2", "-o", out, "--batch-size", "1", "--resume").code == 0
    asked = {body["messages"][-1]["content"] for body in server.bodies}
    assert "three" in asked
    if code != 401:  # which concerns all, and ends the run before what is on its way is there
        assert asked == {"three"}


@pytest.mark.parametrize("where", ["", "-o @.jsonl", "-o @/", "-o @.jsonl --workers 1"])
def test_prompts_that_all_fail_are_sent_once(sample, server, sources, tmp_path, where):
    server.always = status(400, "not with me")
    args = ["-n", "1", "--retries", "0", *where.replace("@", f"{tmp_path}/out").split()]
    result = sample(sources, *args)
    assert result.code == 2
    assert "all 4 segments failed" in result.err
    sent = [body["messages"][-1]["content"] for body in server.bodies]
    assert sorted(sent) == sorted(sources.read_text().split())
    server.always = None
    assert sample(sources, *args).code == 0


def test_a_pipe_whose_prompts_all_fail_is_not_read_again(sample, server):
    server.always = status(400, "not with me")
    result = sample("-", "-n", "1", "--retries", "0", stdin=b"one\ntwo\n")
    assert "all 2 segments failed" in result.err
    assert len(server.bodies) == 2


def test_the_rest_of_a_batch_with_a_failure_is_kept_and_the_failure_drawn_again(
        sample, server, sources, tmp_path):
    whole = sample(sources, "-n", "4").records
    server.always = refusing_prompt("three")
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out, "--on-error", "stop").code == 2
    server.always = None
    server.bodies.clear()
    assert sample(sources, "-n", "4", "-o", out, "--resume").code == 0
    assert read(out.read_text()) == whole
    assert {body["messages"][0]["content"] for body in server.bodies} == {"three"}


def test_a_field_called_error_is_no_failure(sample, server, tmp_path):
    path = write(tmp_path / "in.jsonl", {"source": "one", "error": "none"})
    out = tmp_path / "out.jsonl"
    assert sample(path, "-n", "2", "-o", out).code == 0
    server.bodies.clear()
    assert sample(path, "-n", "2", "-o", out, "--resume").code == 0
    assert server.bodies == []


def test_a_finished_file_that_somebody_changed_is_told(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    out.write_bytes(out.read_bytes()[:-9])
    result = sample(sources, "-n", "4", "-o", out, "--resume")
    assert result.code == 2
    assert "out.jsonl" in result.err
    out.unlink()
    assert sample(sources, "-n", "4", "-o", out, "--resume").code == 0


def test_what_cannot_change_a_sample_may_change(sample, sources, tmp_path):
    out = tmp_path / "out.jsonl"
    assert sample(sources, "-n", "4", "-o", out).code == 0
    assert sample(sources, "-n", "4", "-o", out, "--resume", "--concurrency", "1").code == 0


def test_ctrl_c_does_not_wait_for_a_slow_server(server, sources, tmp_path):
    server.delay = 60
    with spawn("sample", sources, "--endpoint", server.endpoint, "--model", "m",
               "-o", tmp_path / "out") as process:
        wait_for(lambda: server.bodies)
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 130
        assert b"interrupted after 0 segments" in process.stderr.read()
