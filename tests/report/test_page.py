"""The page in a real Chromium: what a reader does, and what a hostile text cannot do."""

from __future__ import annotations

import json
import os
import re
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest

import minrisk
from mbr_server import serving, settings
from minrisk.server.http import Keys
from report_pages import page_data
from upstream import mock_upstream

playwright = pytest.importorskip("playwright.sync_api", reason="needs playwright")
expect = playwright.expect  # waits from outside: the policy of the page refuses polling scripts
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))),
                None)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="needs Chromium")

CATS = ["the cat sat", "the cat sat.", "a cat sat", "no idea at all", "the cat sat", "the cat sat"]
HOSTILE = ["</script><script>window.owned = 1</script>", "<img src=x onerror='window.owned = 1'>",
           "<svg onload='window.owned = 1'>", "javascript:window.owned=1", "{{constructor}}"]
RECORDS = [
    {"id": "cat", "source": "die Katze sa\u00df", "samples": CATS, "reference": "the cat sat down",
     "logprobs": [-4.0, -3.0, -5.0, -9.0, -4.0, -4.0], "beam5": "the cat sits"},
    {"id": "dog", "source": "Hunde bellen", "samples": ["dogs bark", "dogs bark", "a dog barks"],
     "reference": "dogs are barking", "logprobs": [-1.0, -1.0, -3.0], "beam5": "dogs bark"},
    {"id": "chinese", "source": "rain", "reference": "\u4e0b\u96e8\u4e86",
     "samples": ["\u4e0b\u96e8\u65f6\u732b\u5750\u5728\u57ab\u5b50\u4e0a",
                 "\u4e0b\u96e8\u65f6\u72d7\u5750\u5728\u57ab\u5b50\u4e0a"],
     "logprobs": [-1.0, -2.0], "beam5": "\u4e0b\u96e8"},
    {"id": "arabic", "source": "postponed",
     "samples": ["\u062a\u0645 \u062a\u0623\u062c\u064a\u0644"],
     "logprobs": [-1.0], "beam5": "x", "reference": "y"},
    {"id": "<b>hostile</b>", "source": HOSTILE[0], "samples": HOSTILE, "beam5": HOSTILE[1],
     "logprobs": [-1.0, -2.0, -3.0, -4.0, -5.0], "reference": HOSTILE[2]},
    {"id": "failed"},
]


@pytest.fixture(scope="module")
def browser():
    """Only while this module runs: its event loop would be in the way of others."""
    arguments = ["--no-sandbox"] if os.getuid() == 0 else []
    with playwright.sync_playwright() as driver:
        opened = driver.chromium.launch(executable_path=CHROMIUM, args=arguments)
        opened.new_context()
        yield opened
        opened.close()


@pytest.fixture(scope="module")
def report(tmp_path_factory):
    path = tmp_path_factory.mktemp("report") / "report.html"
    minrisk.inspect(RECORDS, title="A <report>").save(path)
    return path


@contextmanager
def opened(browser, path, address="", **options):
    """A page that must neither complain nor ask for anything.

    Pages without options share a context, and the process that shows them.
    """
    context = browser.new_context(**options) if options else browser.contexts[0]
    complaints, requests = [], []
    page = context.new_page()
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    url = path if isinstance(path, str) else path.as_uri()
    page.goto(f"{url}{address}")
    page.wait_for_selector("html[data-ready]")
    page.wait_for_selector("#segment > *", state="attached")  # which is opened behind the list
    try:
        yield page
        assert complaints == []
        assert [one for one in requests if not one.startswith((url, "data:"))] == []
    finally:
        (context if options else page).close()


@pytest.fixture
def page(browser, report):
    with opened(browser, report) as found:
        yield found


def ids(page) -> list[str]:
    return page.locator("#list .id").all_text_contents()


def test_it_opens_with_the_first_segment_and_the_count(page):
    assert ids(page) == [record["id"] for record in RECORDS]
    assert page.locator("#count").text_content() == "6 segments"
    assert page.locator("#segment h2").text_content() == "cat"
    assert page.locator("#segment .chosen").text_content() == "the cat sat"
    assert page.title() == "A <report> \u00b7 minrisk inspect"


def test_it_sorts_by_a_measure_and_back(page):
    page.select_option("#sort", "confidence")
    assert ids(page)[-1] == "failed"  # which has none
    first = ids(page)
    page.click("#direction")
    assert ids(page)[-1] == "failed"
    assert ids(page)[0] != first[0]
    page.select_option("#sort", "length")
    assert ids(page)[:3] == ["failed", "chinese", "arabic"]


def test_it_finds_texts_in_sources_samples_references_and_outputs(page):
    for query, expected in (
            ("katze", ["cat"]), ("barking", ["dog"]), ("NO IDEA", ["cat"]), ("zebra", []),
            ("\u732b", ["chinese"]), ("sits", ["cat"]), ("<script>", ["<b>hostile</b>"])):
        page.fill("#search", query)
        expect(page.locator("#count")).to_have_text(f"{len(expected)} of 6 segments")
        expect(page.locator("#list .id")).to_have_text(expected)
        assert page.locator("#empty").is_visible() == (not expected)


def test_it_filters_by_what_differs_and_by_confidence(page):
    page.select_option("#differs", "beam5")
    assert "dog" not in ids(page)
    assert "cat" in ids(page)
    page.select_option("#differs", "")
    page.select_option("#confidence", "confidence:0.95:")
    assert "arabic" in ids(page)  # a single sample is sure
    page.click("#chips .chip")
    assert len(ids(page)) == 6


def test_a_link_leads_to_a_segment_with_the_same_list(browser, report, page):
    page.fill("#search", "dog")
    page.select_option("#sort", "utility")
    page.locator(".row").first.click()
    expect(page).to_have_url(re.compile("i=1"))
    address = page.evaluate("location.hash")
    with opened(browser, report, address) as other:
        assert other.locator("#segment h2").text_content() == "dog"
        assert other.input_value("#search") == "dog"
        assert other.input_value("#sort") == "utility"
        assert ids(other) == ["dog"]


@pytest.mark.parametrize("address", ["#i=99", "#s=nonsense&f=nobody&v=nowhere", "#r=x:y:z", "#%",
                                     "#i=0&p=77"])
def test_an_address_that_makes_no_sense_does_no_harm(browser, report, address):
    with opened(browser, report, address) as page:
        assert page.locator("#segment > *").count() > 0


def test_differences_are_marked_by_elements_and_from_a_pinned_sample(page):
    row = page.locator(".samples tbody tr", has_text="no idea")
    assert "no idea at all" in row.locator("ins").first.text_content()
    assert "the cat sat" in row.locator("del").first.text_content()
    row.locator(".pin").click()
    expect(page).to_have_url(re.compile("p="))
    first = page.locator(".samples tbody tr").first
    assert "no idea at all" in first.locator("del").first.text_content()
    page.uncheck(".toggle input")
    expect(page.locator(".samples ins")).to_have_count(0)


def test_scripts_without_spaces_differ_by_words(browser, report):
    with opened(browser, report, "#i=2") as page:
        page.wait_for_selector(".samples ins")
        marked = page.locator(".samples ins").first.text_content()
        assert marked in ("\u72d7", "\u732b")  # one word of a sentence


def test_texts_from_right_to_left_begin_at_the_right(browser, report):
    with opened(browser, report, "#i=3") as page:
        page.wait_for_selector(".chosen")
        assert page.locator(".chosen").evaluate("e => getComputedStyle(e).direction") == "rtl"


def test_the_heat_map_and_the_table_have_the_same_numbers(page):
    names = page.locator(".heat-map .tick.end").all_text_contents()
    rows = page.locator(".matrix tbody tr")
    assert [rows.nth(n).locator("th").text_content() for n in range(rows.count())] == names
    drawn = page.locator(".heat-map g text").all_text_contents()
    listed = page.locator(".matrix td.num").all_text_contents()
    assert len(drawn) == len(listed) > 4
    # whole numbers in the cells, for there is no room for more
    assert all(abs(float(a) - float(b)) < 0.6 for a, b in zip(listed, drawn, strict=True))


def test_alike_samples_are_shown_as_clusters(page):
    assert "Clusters" in page.locator("#segment .facts dt").all_text_contents()
    assert "Semantic clusters" in page.locator("#segment h3").all_text_contents()
    for table in ("samples", "clusters"):
        assert "Cluster" in page.locator(f"table.{table} th").all_text_contents()
    assert "meaning" not in page.locator("body").inner_html().lower()


def test_the_corpus_shows_distributions_and_systems(page):
    page.keyboard.press("c")
    assert page.locator("#corpus h2").all_text_contents() == [
        "The run", "Distributions", "Systems", "How it was made"]
    systems = page.locator(".systems tbody th").all_text_contents()
    assert systems == ["choice", "one sample", "most probable", "beam5"]
    assert page.locator(".biased").all_text_contents() == [
        "The output of this run was chosen by chrf, which overestimates it against human "
        "references too (Kovacs et al. 2024): compare by another metric as well, with minrisk "
        "score."]
    page.select_option("#system", "beam5")
    assert "The choice is better in" in page.locator("#system-details").text_content()
    page.locator("#system-details button", has_text="Show where").click()
    assert "dog" not in ids(page)
    page.go_back()
    page.locator("#corpus .histogram button").first.click()
    assert 0 < len(ids(page)) < 6


def test_a_page_that_opens_with_the_corpus_has_a_list_behind_it(browser, report):
    with opened(browser, report, "#v=corpus") as page:
        page.keyboard.press("s")
        assert len(ids(page)) == 6


def test_everything_can_be_reached_by_keys(page):
    page.keyboard.press("j")
    expect(page.locator("#segment h2")).to_have_text("dog")
    page.keyboard.press("k")
    expect(page.locator("#segment h2")).to_have_text("cat")
    page.keyboard.press("/")
    page.keyboard.type("kk")  # a text, not two steps
    assert page.input_value("#search") == "kk"
    page.keyboard.press("Escape")
    assert page.input_value("#search") == ""
    assert page.evaluate("document.activeElement.id") == "list"
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.evaluate("document.activeElement.id") == "segment"
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()
    page.keyboard.press("Escape")
    assert not page.locator("#help").is_visible()


def saved(waiting) -> list[str]:
    return Path(waiting.value.path()).read_text(encoding="utf-8").splitlines()


def test_rows_can_be_saved(page):
    page.fill("#search", "dog")
    expect(page.locator("#count")).to_have_text("1 of 6 segments")
    with page.expect_download() as waiting:
        page.click("#save-jsonl")
    [line] = saved(waiting)
    assert json.loads(line)["text"] == "dogs bark"
    page.fill("#search", "")
    expect(page.locator("#count")).to_have_text("6 segments")
    with page.expect_download() as waiting:
        page.click("#save-tsv")
    head, *lines = saved(waiting)
    assert head.split("\t")[:3] == ["id", "source", "text"]
    assert len(lines) == 6


def test_hostile_texts_are_shown_and_do_nothing(browser, report):
    with opened(browser, report, "#i=4") as page:
        page.wait_for_selector(".chosen")
        shown = page.locator(".samples .sample").all_text_contents()
        assert any("<script>" in text for text in shown)
        page.keyboard.press("c")
        page.keyboard.press("s")
        assert page.evaluate("window.owned") is None
        assert page.locator("article img, article svg[onload], article script").count() == 0


def test_a_script_that_is_not_the_pages_own_is_refused(browser, report, tmp_path):
    """What a mistake of ours would lead to: the policy is in force."""
    tampered = tmp_path / "tampered.html"
    html = report.read_text(encoding="utf-8")
    tampered.write_text(html.replace("<header", "<script>window.owned = 1</script><header", 1),
                        encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    page.goto(tampered.as_uri())
    page.wait_for_selector("html[data-ready]")
    assert page.evaluate("window.owned") is None
    context.close()


def test_a_failed_segment_says_why(browser, report):
    with opened(browser, report, "#i=5") as page:
        page.wait_for_selector(".alert")
        assert "expected samples or hypotheses" in page.locator(".alert").text_content()


def luminance(page, selector: str) -> float:
    colour = page.locator(selector).evaluate("e => getComputedStyle(e).backgroundColor")
    return sum(map(float, colour.strip("rgb()").split(",")[:3])) / 3


def test_it_follows_the_colours_of_the_system(browser, report):
    with opened(browser, report, color_scheme="dark") as dark:
        assert luminance(dark, "body") < 60
    with opened(browser, report, color_scheme="light") as light:
        assert luminance(light, "body") > 200


def test_reduced_motion_means_none(browser, report):
    with opened(browser, report, reduced_motion="reduce") as page:
        assert page.locator(".row").first.evaluate(
            "e => getComputedStyle(e).transitionDuration") == "0s"


def test_it_prints_the_segment_without_the_list(page):
    page.emulate_media(media="print")
    assert not page.locator("#list").is_visible()
    assert page.locator(".chosen").is_visible()


def test_narrow_windows_show_the_list_or_the_segment(browser, report):
    with opened(browser, report, viewport={"width": 400, "height": 800}) as page:
        assert page.locator("#list").is_visible()
        assert not page.locator("#segment").is_visible()
        page.locator(".row").first.click()
        page.wait_for_selector(".chosen")
        assert not page.locator("#list").is_visible()
        assert page.evaluate("document.documentElement.scrollWidth") <= 400
        page.click(".back")
        assert page.locator("#list").is_visible()


@pytest.mark.parametrize(("which", "address"), [
    ("report", ""), ("report", "#v=corpus"), ("report", "#i=5"), ("votes", "")])
def test_an_automatic_check_finds_no_barrier(browser, request, which, address):
    """The dark scheme has other colours, and nothing else of its own."""
    axe = pytest.importorskip("axe_playwright_python.base", reason="needs axe-playwright-python")
    source = axe.AXE_FILE_PATH.read_text(encoding="utf-8")
    # the policy of the page would refuse the checker, as it should
    path = request.getfixturevalue(which)
    with opened(browser, path, address, color_scheme="light", bypass_csp=True) as page:
        page.wait_for_selector("#segment > *, #corpus > *", state="attached")
        page.evaluate(source)
        for scheme, rules in (("light", ""), ("dark", "{runOnly: ['color-contrast']}")):
            # colours change at once, without a transition
            page.emulate_media(color_scheme=scheme, reduced_motion="reduce")
            found = page.evaluate(f"axe.run({rules})")
            assert [(violation["id"], [node["html"][:120] for node in violation["nodes"]])
                    for violation in found["violations"]] == []


@pytest.mark.parametrize("count", [1_000, pytest.param(10_000, marks=pytest.mark.slow)])
def test_many_segments_open_and_only_what_is_visible_is_rendered(browser, tmp_path, monkeypatch,
                                                                 count):
    monkeypatch.setattr("minrisk.report.page._PART", 1 << 14)  # a thousand come in parts too
    path = tmp_path / "large.html"
    records = [{"id": n, "source": f"source {n}", "samples": [f"one {n}", f"two {n}", f"one {n}"]}
               for n in range(count)]
    minrisk.inspect(records).save(path)
    assert "part-9" in path.read_text(encoding="utf-8")
    with opened(browser, path) as page:
        assert page.locator("#count").text_content() == f"{count:,} segments"
        assert page.locator(".row").count() < 60
        page.evaluate("document.getElementById('list').scrollTop = 1e9")
        page.wait_for_selector(f"#row-{count - 1}")
        assert page.locator(".row").count() < 60
        page.fill("#search", f"two {count - 2}")
        expect(page.locator("#count")).to_have_text(f"1 of {count:,} segments")
        assert ids(page) == [str(count - 2)]


def test_a_thousand_samples_are_shown_step_by_step(browser, tmp_path):
    path = tmp_path / "many.html"
    minrisk.inspect([[f"sample {n}" for n in range(1024)]], show=1024).save(path)
    with opened(browser, path) as page:
        assert page.locator(".samples tbody tr").count() == 100
        page.get_by_role("button", name="Show 924 more").click()
        assert page.locator(".samples tbody tr").count() == 1024
        page.locator(".samples .pin").last.click()
        expect(page).to_have_url(re.compile("p=1023"))


def test_a_notebook_shows_the_page_in_a_frame(browser, tmp_path):
    path = tmp_path / "notebook.html"
    path.write_text(minrisk.inspect(RECORDS)._repr_html_(), encoding="utf-8")
    context = browser.new_context()
    page = context.new_page()
    complaints = []
    page.on("console", lambda message: complaints.append(message.text))
    page.on("pageerror", lambda error: complaints.append(str(error)))
    page.goto(path.as_uri())
    frame = page.frame_locator("iframe")
    expect(frame.locator("#count")).to_have_text("6 segments")
    frame.locator("#search").fill("dog")
    expect(frame.locator("#count")).to_have_text("1 of 6 segments")
    assert complaints == []
    context.close()


def test_the_page_of_a_server_opens_with_the_password(browser):
    keys = Keys(["one-key"])
    with (mock_upstream(*CATS) as upstream,
          serving(upstream.url, settings(samples=6, show_page=True, keys=keys)) as server):
        for question in ("first", "second"):
            body = {"model": "m", "messages": [{"role": "user", "content": question}]}
            server.call("/v1/chat/completions", body, Authorization="Bearer one-key")
        credentials = {"username": "", "password": "one-key"}
        with opened(browser, f"{server.url}/", http_credentials=credentials) as page:
            assert page.locator("#count").text_content() == "2 requests"
            assert page.locator("#segment .chosen").text_content() == "the cat sat"
            assert page.locator("h1").text_content() == "minrisk serve"
            assert "ready: yes" in page.locator("#facts").text_content()


def test_the_page_of_a_server_without_requests_opens(browser):
    with (mock_upstream("x") as upstream,
          serving(upstream.url, settings(show_page=True)) as server):
        context = browser.new_context()
        page = context.new_page()
        errors = []
        page.on("pageerror", lambda error: errors.append(error))
        page.goto(server.url)
        page.wait_for_selector("html[data-ready]")
        assert page.locator("#count").text_content() == "0 requests"
        assert errors == []
        context.close()


def shown_words(page) -> str:
    """All that a reader sees or hears, also of what is hidden now."""
    return page.evaluate("""() => [...document.querySelectorAll('body *')].flatMap((element) => [
        ...['aria-label', 'title', 'placeholder'].map((name) => element.getAttribute(name) ?? ''),
        ...[...element.childNodes].filter((node) => node.nodeType === 3
            && !['SCRIPT', 'NOSCRIPT'].includes(element.tagName)).map((node) => node.data),
    ]).join(' ').toLowerCase()""")


def test_the_page_of_a_server_tells_requests_apart_and_counts_failures_once(browser):
    with (mock_upstream(*CATS) as upstream, serving(
            upstream.url, settings(samples=6, show_page=True)) as server):
        server.chat("first")
        server.chat("second", temperature=0)
        server.chat(minrisk={"samples": 999})
        with opened(browser, f"{server.url}/") as page:
            refused, passed, chosen = page.locator("#list .row").all()
            assert refused.locator(".failed").count() == 1
            assert (passed.locator(".meter").count(), chosen.locator(".meter").count()) == (0, 1)
            assert all(row.locator("time").get_attribute("datetime")
                       for row in (refused, passed, chosen))
            for row, facts in ((chosen, True), (passed, False)):
                row.click()
                expect(page.locator("#segment .chosen")).to_be_visible()
                assert page.locator("#segment .facts.request dt").all_text_contents() == [
                    "Time", "Model", "Tokens", "Latency", "Finish reason"]
                names = page.locator("#segment .facts dt").all_text_contents()
                assert ("Confidence" in names) == facts
            words = shown_words(page)
            page.keyboard.press("c")
            assert "1 failed" in page.locator("#facts").text_content()
            assert "1 failed" in page.locator(".tile", has_text="Requests").text_content()
            words += shown_words(page)
            assert "request" in words
            assert "segment" not in words
            assert "corpus" not in words


VOTES = [
    {"id": "sum", "samples": ["It is 7.", "2 + 5 = 7", "So it is 7", "It is 8.", "no idea"],
     "finish_reasons": ["stop", "length", "stop", "stop", "stop"], "source": "2 + 5?"},
    {"id": "other", "samples": ["4", "5", "4"], "source": "2 + 2?"}]


@pytest.fixture(scope="module")
def votes(tmp_path_factory):
    path = tmp_path_factory.mktemp("votes") / "votes.html"
    minrisk.inspect(VOTES, metric=minrisk.ExactMatch(r"\d+")).save(path)
    return path


def test_a_vote_shows_answers_first_and_differences_on_demand(browser, votes):
    with opened(browser, votes) as page:
        heads = page.locator("#segment h3").all_text_contents()
        assert heads.index("Answer") < heads.index("Choice") < heads.index("Samples by rank")
        assert not {"Semantic clusters", "Similarity"} & set(heads)
        rows = page.locator(".votes tbody tr").all()
        assert [row.locator("th").text_content() for row in rows] == ["7", "8", "no answer"]
        shares = [row.locator("td.num").first.text_content() for row in rows]
        assert shares == ["60%", "20%", "20%"]
        assert sorted(page.locator(".samples td.answer").all_text_contents()) == [
            "7", "7", "7", "8", "no answer"]
        assert page.locator("#list .row .answer").all_text_contents() == ["7", "4"]
        assert page.locator("#segment ins, #segment del").count() == 0
        page.check(".toggle input")
        expect(page.locator(".samples ins").first).to_be_visible()
        page.uncheck(".toggle input")
        expect(page.locator(".samples ins")).to_have_count(0)
        page.locator(".samples .pin").nth(3).click()  # to compare is to ask for differences
        expect(page.locator(".samples ins").first).to_be_visible()


def test_truncated_samples_are_marked(browser, votes):
    with opened(browser, votes) as page:
        marked = page.locator(".samples tbody tr", has=page.locator(".cut-off"))
        assert marked.count() == 1
        assert "2 + 5 = 7" in marked.text_content()
        assert "1 truncated" in page.locator("#segment .facts").text_content()
        page.keyboard.press("c")
        assert "1 of 8" in page.locator(".tile", has_text="Truncated").text_content()


@pytest.mark.parametrize("metric", ["chrf", "ter"])
@pytest.mark.parametrize("better", ["choice", "other"])
def test_differences_have_one_sign_and_say_which_side_is_better(browser, tmp_path, metric, better):
    """Of scores and of errors, in the table, the sentence and the list."""
    texts = [["the cat sat", "the cat sat", "a dog"], ["dogs bark", "dogs bark", "a cow"]]
    chosen, other = ["the cat sat", "dogs bark"], ["a tree stood", "birds are singing"]
    path = tmp_path / "leads.html"
    minrisk.inspect(texts, metric=metric, against={"other": other},
                    references=chosen if better == "choice" else other).save(path)
    expected = "better" if better == "choice" else "worse"
    with opened(browser, path, "#v=corpus") as page:
        page.select_option("#system", "other")
        cells = page.locator(".systems tbody tr", has_text="other").locator("td").all()
        assert "better" in cells[1].text_content()  # by utility, the choice always is
        assert expected in cells[4].text_content()
        sign = "+" if better == "choice" else "\u2212"
        assert f"[{sign}" in cells[4].text_content()
        sentence = page.locator("#system-details p").nth(1).text_content()
        assert re.search(rf"in their mean it is [\d.]+ {expected}", sentence)
        leads = page.locator(".most .num").all_text_contents()
        assert leads
        assert all(lead.endswith(expected) for lead in leads)


def test_a_validation_shows_intervals_and_what_holds_at_their_upper_end(browser, tmp_path):
    segments, path = [], tmp_path / "validated.html"
    for n in range(12):
        segments.append([f"{a} {b} sat {n}" for a in ("the", "a", "one") for b in ("cat", "dog")])
    minrisk.validate(segments, output=tmp_path / "v.jsonl")
    minrisk.inspect(segments, validation=tmp_path / "v.jsonl").save(path)
    found = page_data(path.read_text(encoding="utf-8")).index["validation"]
    tolerated = [line["label"] for n, line in enumerate(found["trials"])
                 if n == 0 or line["lost_high"] <= found["tolerance"]]
    assert found["recommended"] in tolerated
    assert len(tolerated) < len(found["trials"])
    with opened(browser, path, "#v=corpus") as page:
        assert page.locator(".recommended strong").text_content() == found["recommended"]
        lines = page.locator(".intervals .trial")
        assert lines.locator("text").all_text_contents() == [
            line["label"] for line in found["trials"]]
        assert page.locator(".intervals .tolerated text").all_text_contents() == tolerated
        rows = page.locator(".trials tbody tr")
        assert [f"to {line['lost_high']:.3f})" in rows.nth(n).text_content().replace("\u2212", "-")
                for n, line in enumerate(found["trials"])] == [True] * rows.count()
        assert rows.filter(has_text="yes").count() == len(tolerated)


def test_a_metric_that_compares_no_texts_shows_neither_clusters_nor_similarities(browser, tmp_path):
    path = tmp_path / "other.html"
    records = [{"samples": ["a cat", "a dog", "a cat"], "logprobs": [-2, -3, -2], "beam": "a cow"}]
    minrisk.inspect(records, metric="logprob").save(path)
    with opened(browser, path) as page:
        heads = page.locator("#segment h3").all_text_contents()
        assert heads == ["Choice", "Samples by rank", "Other outputs"]
        assert page.locator("#segment .facts dt").all_text_contents() == [
            "Utility", "Margin", "Samples"]
        assert page.locator("table.samples th").all_text_contents() == [
            "Rank", "Sample", "Count", "Utility", "Log-prob."]
        assert page.locator("table.samples .utility").all_text_contents() == ["−2.00", "−3.00"]
        page.keyboard.press("c")
        assert page.locator(".systems tbody tr").count() == 4


@pytest.mark.parametrize(("metric", "strategy"), [("ter", "standard"), ("exact-match", "standard"),
                                                  ("chrf", "aggregate-to-fine")])
def test_errors_votes_and_missing_utilities_are_shown(browser, tmp_path, metric, strategy):
    path = tmp_path / "other.html"
    options = {"keep": 1} if strategy == "aggregate-to-fine" else {}
    minrisk.inspect(RECORDS, metric=metric, strategy=strategy, **options).save(path)
    with opened(browser, path) as page:
        utility = page.locator("#segment .facts dd").first.text_content()
        assert utility[0].isdigit()  # errors have their own sign
        page.keyboard.press("c")
        # in a vote, there is also the system that any sample is right
        assert page.locator(".systems tbody tr").count() == 4 + (metric == "exact-match")


def test_composed_answers_have_their_fields_and_samples_their_models(browser, tmp_path):
    samples = ['{"a": 1, "b": 5}', '{"a": 1, "b": 2, "c": 4}', '{"a": 6, "b": 2}']
    strategy = minrisk.Compose(minrisk.JsonMatch(by="field"))
    path = tmp_path / "report.html"
    record = {"samples": samples, "counts": [1, 1, 1], "models": ["x", "y", "y"]}
    minrisk.inspect([record], strategy=strategy).save(path)
    with opened(browser, path, "#i=0") as page:
        page.wait_for_selector(".samples")
        cells = page.locator(".samples tbody td").all_text_contents()
        assert (cells.count("x"), cells.count("y")) == (1, 2)
        assert page.locator(".votes tbody th").all_text_contents() == [".a", ".b"]
        assert page.locator(".votes .share-of").all_text_contents() == ["67%", "67%"]
