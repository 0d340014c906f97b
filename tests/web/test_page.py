"""The page in a real browser. Every state is saved as a screenshot.

The screenshots go to the folder CBID_SCREENSHOTS, or to a temporary folder of pytest.
"""

import base64
import contextlib
import json
import os
import re
import shutil
from pathlib import Path

import httpx2 as httpx
import numpy as np
import pytest

from cbid.project import Project
from tests.web.conftest import PER_CLASS, running
from tests.web.shapes import KINDS, png

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
pytestmark = [
    pytest.mark.browser,
    pytest.mark.skipif(CHROMIUM is None, reason="chromium is not installed: the page is not tested in a browser"),
]
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
VIEWS = ("#search/1+2-3", "#browse", "#mistakes", "#duplicates", "#bits/0", "#classes", "#add")
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def pictures(tmp_path_factory):
    given = os.environ.get("CBID_SCREENSHOTS")
    folder = Path(given) if given else tmp_path_factory.mktemp("screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def expect(what):
    """Return the assertions of playwright, which wait. Its import takes seconds, so only these tests import it."""
    from playwright.sync_api import expect

    return expect(what)


@pytest.fixture(scope="module")
def browser():
    from playwright.sync_api import expect, sync_playwright

    expect.set_options(timeout=60_000)
    with sync_playwright() as playwright:
        launched = playwright.chromium.launch(executable_path=CHROMIUM, args=FLAGS)
        yield launched
        launched.close()


class Visit:
    """A page whose console errors and requests to other hosts are recorded."""

    def __init__(self, browser, address, pictures, viewport=DESKTOP, **context):
        self.address, self.pictures = address, pictures
        self.context = browser.new_context(viewport=viewport, reduced_motion="reduce", **context)
        self.context.set_default_timeout(60_000)
        self.page = self.context.new_page()
        self.errors, self.foreign = [], []
        self.page.on("console", lambda message: message.type == "error" and self.errors.append(message.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self._asked(request.url))

    def _asked(self, url):
        if not url.startswith((self.address, "blob:", "data:")):
            self.foreign.append(url)

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        self.context.close()
        if kind is None:
            assert self.errors == []
            assert self.foreign == []

    def open(self, where=""):
        self.page.goto(f"{self.address}/{where}")
        self.page.wait_for_selector("#about:not(:empty)")
        return self.page

    def go(self, where):
        """Go to a view by its address, and wait until it is shown."""
        self.page.goto(f"{self.address}/{where}")
        name = where[1:].split("/")[0]
        view = {"mistakes": "browse", "duplicates": "browse"}.get(name, name)
        self.page.wait_for_selector(f"#view-{view}:not([hidden])")
        self.page.wait_for_load_state("networkidle")

    def keep(self, name):
        """Save a screenshot once all visible images are loaded."""
        # Not wait_for_function, which evaluates text in the page: its security policy forbids that.
        below = "i.getBoundingClientRect().top > innerHeight || !i.offsetParent"
        while not self.page.evaluate(f"[...document.images].every((i) => i.complete || {below})"):
            self.page.wait_for_timeout(50)
        self.page.screenshot(path=self.pictures / f"{name}.png")

    def check_access(self):
        """Check the accessibility rules of axe."""
        from axe_playwright_python.sync_playwright import Axe

        results = Axe().run(self.page)
        assert results.violations_count == 0, results.generate_report()

    def drag(self, name, content, kind, onto):
        """Drag a file over the page, yield, and drop it."""
        transfer = self.page.evaluate_handle(
            """([name, content, type]) => {
                const bytes = Uint8Array.from(atob(content), (c) => c.charCodeAt(0));
                const transfer = new DataTransfer();
                transfer.items.add(new File([bytes], name, { type }));
                return transfer;
            }""",
            [name, base64.b64encode(content).decode(), kind],
        )
        self.page.dispatch_event("body", "dragenter", {"dataTransfer": transfer})
        self.page.wait_for_selector("#overlay:not([hidden])")
        self.page.dispatch_event(onto, "dragover", {"dataTransfer": transfer})
        yield
        self.page.dispatch_event(onto, "drop", {"dataTransfer": transfer})
        yield


def shown(page):
    """Return the ids of the results, nearest first, once the search has finished."""
    page.wait_for_selector("#results:not(.stale) .card")
    return page.eval_on_selector_all("#results .card", "cards => cards.map((card) => Number(card.dataset.id))")


@pytest.fixture(scope="module")
def address(fitted):
    with running(fitted, rate=0, read_only=True) as address:
        yield address


def test_drop_an_image_and_change_what_is_compared(browser, address, pictures, project):
    learned = round(project.coder.likeness_, 2)
    with Visit(browser, address, pictures) as visit:
        page = visit.open()
        page.wait_for_selector("#sample-list .card")
        samples = page.eval_on_selector_all("#sample-list .card", "cards => cards.map((c) => Number(c.dataset.id))")
        assert set(samples) <= set(project.ids_of(part="held-out").tolist())
        visit.keep("1-empty")
        visit.check_access()

        drop = visit.drag("my rings.png", png("rings", 800), "image/png", "#overlay-search")
        next(drop)
        visit.keep("2-dragging")
        next(drop)
        whole = shown(page)[:20]
        vector = project.describe_image(_decoded(png("rings", 800)))
        assert whole == project.search(vector, 20, likeness=learned).ids[0].tolist()
        assert "Looks like rings" in page.inner_text("#guess")
        assert page.inner_text("#query-name") == "my rings.png"
        expect(page.locator("#cost-raw")).to_contain_text("12 KiB")
        expect(page.locator("#cost-weighted")).to_contain_text("3 bytes")
        visit.keep("3-results")
        visit.check_access()

        # The slider ranks by other weights on the same codes, at once.
        page.focus("#dial-slider")
        for key, point, words in (("End", 1, "looks alike only"), ("Home", 0, "same class only")):
            page.keyboard.press(key)
            expect(page.locator("#dial-value")).to_have_text(words)
            page.wait_for_selector(f"#results[data-likeness='{point}']:not(.stale)")
            assert shown(page)[:20] == project.search(vector, 20, likeness=point).ids[0].tolist()

        page.focus("#bits-slider")
        page.keyboard.press("Home")
        expect(page.locator("#search-status")).to_contain_text("by 8 bits")
        short = shown(page)[:20]
        assert short == project.search(vector, 20, n_bits=8, likeness=0).ids[0].tolist()
        assert short != whole
        visit.keep("4-eight-bits")

        page.check("input[value=raw]")
        page.wait_for_selector("#results[data-how=raw]")
        assert shown(page)[:20] == project.search(vector, 20, how="raw").ids[0].tolist()
        visit.keep("5-raw")

        # Frames are red only once the class of the query is known.
        assert page.locator("#results .card.other").count() == 0
        page.select_option("#own-label", "spots")
        labels = [project.record(id).label for id in shown(page)]
        others = page.locator("#results .card.other").count()
        assert others == sum(label != "spots" for label in labels) > 0
        visit.keep("6-other-classes")
        visit.check_access()


def test_scroll_filter_and_examples(browser, address, pictures, project):
    id = int(project.ids[0])
    with Visit(browser, address, pictures) as visit:
        page = visit.open(f"#search/{id}")
        assert len(shown(page)) >= 20
        while page.locator("#results .card").count() < len(project) - 1:
            page.locator("#results .card").last.scroll_into_view_if_needed()
            page.wait_for_timeout(50)
        everything = shown(page)
        assert sorted([id, *everything]) == project.ids.tolist()  # each image once
        assert page.is_hidden("#more")

        page.select_option("#filter-class", "rings")
        expect(page.locator("#filter-chips .chip")).to_have_count(1)
        expect(page.locator("#results:not(.stale) .card")).to_have_count(PER_CLASS)
        assert {project.record(i).label for i in shown(page)} == {"rings"}
        page.select_option("#filter-class", "spots")
        expect(page.locator("#filter-chips .chip")).to_have_count(2)
        page.wait_for_selector("#results:not(.stale) .card")
        visit.keep("19-filter")
        visit.check_access()
        for _ in range(2):
            page.locator("#filter-chips button").first.click()
        expect(page.locator("#filter-chips .chip")).to_have_count(0)

        # One more example and one counter-example make the query of the address.
        page.wait_for_selector("#results:not(.stale) .card")
        like, unlike = (int(i) for i in (project.ids_of("rings")[0], project.ids_of("spots")[0]))
        page.goto(f"{address}/#search/{id}+{like}")
        expect(page.locator("#like .chip")).to_have_count(1)
        page.wait_for_selector("#results:not(.stale) .card")
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        page.locator(f"#results li:has([data-id='{unlike}']) .act").last.click()
        expect(page.locator("#unlike .chip")).to_have_count(1)
        assert page.url.endswith(f"#search/{id}+{like}-{unlike}")
        ids = shown(page)[:20]
        body = {"query": {"id": id}, "also": [{"id": like}], "unlike": [{"id": unlike}], "k": 20}
        found = httpx.post(f"{address}/api/search", json=body).json()["matches"]
        assert ids == [match["id"] for match in found]
        page.evaluate("window.scrollTo(0, 0)")
        visit.keep("20-examples")
        visit.check_access()
        page.locator("#unlike button").click()
        expect(page.locator("#unlike .chip")).to_have_count(0)
        assert page.url.endswith(f"#search/{id}+{like}")

        # Several files are one query too.
        files = [{"name": f"{i}.png", "mimeType": "image/png", "buffer": png("rings", 800 + i)} for i in range(3)]
        page.set_input_files("#pick", files)
        expect(page.locator("#like .chip")).to_have_count(2)
        assert page.inner_text("#query-name") == "0.png"


def test_why_by_keyboard(browser, address, pictures, project):
    id = int(project.ids[0])
    with Visit(browser, address, pictures) as visit:
        page = visit.open(f"#search/{id}")
        first = shown(page)[2]
        page.locator("#results .card").nth(2).focus()
        page.keyboard.press("Enter")
        page.wait_for_selector("#why-bits button")
        agree = page.locator("#why-bits .agree").count()
        assert agree == int(project.explain(project.code(id), project.code(first)).agree.sum())
        assert f"{agree} of 24 bits" in page.inner_text("#why-sum")
        page.locator("#why-bits button").first.focus()
        page.keyboard.press("ArrowRight")
        assert page.inner_text("#why-bit-text").startswith("Bit 1: ")
        expect(page.locator("#why-bit-text")).to_contain_text("It is ")  # what the bit separates, in words
        found = project.bit_classes(1)
        ones = [name for name, n, k in zip(found.classes, found.images, found.ones) if k >= 0.8 * n]
        assert ("1 for" in page.inner_text("#why-bit-text")) == bool(ones)
        visit.keep("7-why")
        visit.check_access()
        grids = []  # requested parts along a side
        maps = {}  # the last answers, by picture

        def note_map(response):
            if "occlusion" in response.url:
                sent = response.request.post_data_json
                grids.append(sent["grid"])
                maps[sent["id"]] = response.json()

        page.on("response", note_map)
        page.click("#why-where")
        expect(page.locator("#why-where-text")).to_contain_text("Bright parts decide")
        own, other = (f"{max(map(max, maps[i]['flipped']))} of {maps[i]['n_bits']} shared bits" for i in (id, first))
        expect(page.locator("#why-where-text")).to_contain_text(f"up to {own} in the query and {other} in the match")
        expect(page.locator("#why .heat")).to_have_count(2)
        assert grids == [4, 4, 8, 8]  # a first look at both pictures comes soon
        visit.keep("21-where")
        visit.check_access()
        with visit.context.expect_page() as opened:
            page.click("#why-file")
        opened.value.wait_for_load_state()
        assert opened.value.url.endswith(f"/api/images/{first}/file")
        opened.value.close()
        page.keyboard.press("Escape")
        assert page.evaluate("document.activeElement.dataset.id") == str(first)  # the focus returns


def test_one_bit_and_the_classes(browser, address, pictures, project):
    with Visit(browser, address, pictures) as visit:
        page = visit.open("#bits/2")
        page.wait_for_selector(".group .card")
        examples = project.bit(2, 15)
        for i, ids in enumerate((examples.negative, examples.positive)):
            assert page.locator(".group").nth(i).locator(".card").count() == len(ids)
        visit.keep("8-bit")
        visit.check_access()
        page.click("#bit-after")
        expect(page.locator("#bit-status")).to_contain_text("Bit 3 ")

        assert page.inner_text("#bit-words").startswith("It is ")
        assert page.locator("#bit-shares li").count() == len(KINDS)

        page.click("[data-view=classes]")
        page.wait_for_selector(".confusion")
        matrix = project.confusion["matrix"]
        cells = page.locator(".confusion tbody td").all_inner_texts()
        assert [int(cell or 0) for cell in cells] == [n for row in matrix for n in row]
        accuracy = project.evaluation["codes"][-1]["weighted"]["accuracy"]
        assert f"{accuracy:.1%} (" in page.inner_text(".lengths")
        visit.keep("9-classes")
        visit.check_access()

        # A cell opens the images behind it.
        page.locator(".confusion td a").first.click()
        page.wait_for_selector("#browse-list .card")
        i, j = np.argwhere(matrix)[0]
        assert page.locator("#browse-list .card").count() == matrix[i][j]
        found = page.eval_on_selector_all("#browse-list .card", "cards => cards.map((c) => Number(c.dataset.id))")
        assert {project.record(id).label for id in found} == {KINDS[i]}
        assert {project.record(id).part for id in found} == {"held-out"}
        assert page.is_hidden("#refit")  # read-only
        visit.keep("22-cell")
        visit.check_access()


def test_browse_and_duplicates(browser, address, pictures, project):
    wanted = project.duplicates(project.n_bits // 20, 0.8)  # compiles the kernels before the service needs them
    with Visit(browser, address, pictures) as visit:
        page = visit.open("#browse")
        page.wait_for_selector("#browse-list .card")
        expect(page.locator("#browse-list .card")).to_have_count(len(project))
        page.select_option("#browse-class", "rings")
        expect(page.locator("#browse-status")).to_have_text(f"{PER_CLASS} images")
        page.select_option("#browse-part", "held-out")
        held = project.ids_of("rings", "held-out").tolist()
        expect(page.locator("#browse-list .card")).to_have_count(len(held))
        page.select_option("#browse-part", "")
        expect(page.locator("#browse-list .card")).to_have_count(PER_CLASS)
        for i in range(2):
            page.locator("#browse-list .act").nth(i).click()
        assert page.inner_text("#selection-text") == "2 images selected"
        assert page.is_hidden("#selection-remove")  # read-only
        visit.keep("23-browse")
        visit.check_access()
        page.click("#selection-search")
        a, b = project.ids_of("rings")[:2]
        page.wait_for_url(f"**/#search/{a}+{b}")
        shown(page)

        # With a query, selected images can be counter-examples of it.
        page.goto(f"{address}/#browse/spots")
        expect(page.locator("#browse-list .card").first).to_contain_text("spots")
        expect(page.locator("#browse-list .card")).to_have_count(PER_CLASS)
        for i in range(2):
            page.locator("#browse-list .act").nth(i).click()
        page.click("#selection-unlike")
        expect(page.locator("#unlike .chip")).to_have_count(2)
        c, d = project.ids_of("spots")[:2]
        assert page.url.endswith(f"#search/{a}+{b}-{c}-{d}")
        assert not {c, d} & set(shown(page)[:10])
        page.go_back()
        page.wait_for_selector("#view-browse:not([hidden])")

        page.goto(f"{address}/#duplicates")
        expect(page.locator("#browse-status")).not_to_contain_text("Comparing")
        page.locator("#twins-slider").fill("80")
        expect(page.locator("#browse-groups section")).to_have_count(len(wanted))
        visit.keep("24-duplicates")
        visit.check_access()


def test_correct_a_label_and_learn_again(browser, copied, pictures):
    with running(copied, rate=0) as address, Visit(browser, address, pictures) as visit:
        page = visit.open("#browse/rings")
        page.locator("#browse-list .act").first.click()
        page.fill("#selection-label", "hoops")
        page.keyboard.press("Enter")
        expect(page.locator("#browse-status")).to_have_text(f"{PER_CLASS - 1} images")
        expect(page.locator("#about")).to_contain_text("5 classes")
        page.goto(f"{address}/#classes")
        expect(page.locator("#refit-lead")).to_contain_text("1 label changed")
        page.click("#refit-start")
        expect(page.locator("#refit-status")).to_contain_text(re.compile("bit|Measuring|Learned"))  # it may be quick
        visit.keep("25-learning")
        visit.check_access()
        page.wait_for_selector("#refit-lead:not(:has-text('changed'))")
        expect(page.locator("#refit-lead")).not_to_contain_text("changed")
        page.goto(f"{address}/#browse/hoops")
        expect(page.locator("#browse-list .card")).to_have_count(1)
        page.locator("#browse-list .card").click()
        shown(page)
        page.click("#results .card >> nth=0")
        page.fill("#why-label", "hoops")
        page.locator("#why-label").press("Enter")
        expect(page.locator("#why")).not_to_be_visible()
        page.goto(f"{address}/#browse/hoops")
        expect(page.locator("#browse-list .card")).to_have_count(2)
        page.locator("#browse-list .act").first.click()
        page.click("#selection-remove")
        page.click("#selection-remove")
        expect(page.locator("#browse-list .card")).to_have_count(1)


def test_learning_that_starts_during_a_look_at_its_progress_is_shown(browser, copied, pictures):
    held = []

    def hold_the_first_look(route):
        if held or route.request.method != "GET":
            route.fallback()
        else:
            held.append((route, route.fetch()))

    with running(copied, rate=0) as address, Visit(browser, address, pictures) as visit:
        visit.page.route("**/api/refit", hold_the_first_look)
        page = visit.open("#classes")
        with page.expect_response(lambda answer: answer.request.method == "POST"):
            page.click("#refit-start")
        route, idle = held[0]
        route.fulfill(response=idle)
        expect(page.locator("#refit-status")).to_contain_text(re.compile("Starting|bit|Encoding|Measuring|Learned"))
        page.wait_for_selector("#refit-status:has-text('Learned')")


def test_add_an_image_and_find_it(browser, copied, pictures):
    with running(copied, rate=0) as address, Visit(browser, address, pictures) as visit:
        page = visit.open("#add")
        page.fill("#add-label", "spots")
        drop = visit.drag("fresh.png", png("spots", 900), "image/png", "#overlay-add")
        next(drop)
        next(drop)
        page.wait_for_selector("#added li")
        expect(page.locator("#add-status")).to_contain_text("49 images")
        visit.keep("10-added")
        visit.check_access()

        page.click("[data-view=search]")
        page.set_input_files("#pick", {"name": "again.png", "mimeType": "image/png", "buffer": png("spots", 900)})
        shown(page)
        page.wait_for_selector("#results:not(.stale) .card[title='fresh.png']")
        titles = page.eval_on_selector_all("#results .card", "cards => cards.map((card) => card.title)")
        assert "fresh.png" in titles
        agreeing = page.locator("#results .card[title='fresh.png'] .distance").inner_text()
        assert agreeing.split()[0] == agreeing.split()[2]  # all bits agree

        # Remove it in the dialog.
        page.click("#results .card[title='fresh.png']")
        page.click("#why-remove")
        page.click("#why-remove")
        expect(page.locator("#about")).to_contain_text("48 images")
        page.wait_for_selector("#results:not(.stale) .card")
        assert page.locator("#results .card[title='fresh.png']").count() == 0


def test_errors(browser, address, pictures):
    visit = Visit(browser, address, pictures)
    with visit:
        page = visit.open()
        drop = visit.drag("notes.txt", b"Dear image, I am a letter.", "text/plain", "#overlay-search")
        next(drop)
        next(drop)
        page.wait_for_selector("#search-error:not([hidden])")
        assert "notes.txt" in page.inner_text("#search-error")
        visit.keep("11-error")
        visit.check_access()
        assert page.locator("#sample-list .card").count() > 0  # the samples stay
        page.click("#search-error button")
        assert page.is_hidden("#search-error")

        # A text file with the type of an image: the service checks the bytes. The browser logs the 415.
        page.set_input_files("#pick", {"name": "liar.png", "mimeType": "image/png", "buffer": b"I am a letter too"})
        page.wait_for_selector("#search-error:not([hidden])")
        assert "liar.png" in page.inner_text("#search-error")
        assert "Its format is unknown: expected one of JPEG" in page.inner_text("#search-error")
        assert [error for error in visit.errors if "415" not in error] == []

        # An unknown image: the results of the previous search stay, but dim. The browser logs the 404.
        page.goto(f"{address}/#search/0")
        shown(page)
        page.goto(f"{address}/#search/99999")
        page.wait_for_selector("#results.stale .card")
        assert "99999" in page.inner_text("#search-error")
        assert "previous search" in page.inner_text("#search-status")
        visit.keep("28-old-results")
        visit.check_access()
        assert [error for error in visit.errors if "415" not in error and "404" not in error] == []
        visit.errors.clear()

        # The same for near-duplicates, and for bits.
        images = httpx.get(f"{address}/api/images?count=2").json()["images"]
        found = {"total": 1, "groups": [{"similarity": 0.9, "images": images}]}
        page.route("**/api/duplicates*", lambda route: route.fulfill(json=found))
        page.goto(f"{address}/#duplicates")
        page.wait_for_selector("#browse-groups:not(.stale) section")
        page.unroute("**/api/duplicates*")
        page.route("**/api/duplicates*", lambda route: route.fulfill(status=503, json={"error": "busy"}))
        page.locator("#twins-slider").fill("80")
        page.wait_for_selector("#browse-error:not([hidden])")
        assert page.locator("#browse-groups.stale section").count() > 0
        visit.keep("30-old-groups")
        visit.check_access()
        page.goto(f"{address}/#bits/1")
        page.wait_for_selector("#bit-groups .card")
        page.goto(f"{address}/#bits/999")
        page.wait_for_selector("#bit-groups.stale .card")
        assert "Bit 999 does not exist" in page.inner_text("#bits-error")
        visit.check_access()
        page.goto(f"{address}/#bits/1")
        page.wait_for_selector("#bit-groups:not(.stale) .card")
        assert [error for error in visit.errors if "503" not in error] == []
        visit.errors.clear()


def test_late_answers_do_not_replace_newer_ones(browser, address, pictures):
    """The next results of one search arrive after the next search has failed: they must not look like its answer."""
    from playwright.sync_api import Error

    held = []

    def hold_more(route):
        if json.loads(route.request.post_data)["first"]:
            held.append(route)
        else:
            route.continue_()

    with Visit(browser, address, pictures) as visit:
        page = visit.open()
        page.route("**/api/search", hold_more)
        page.goto(f"{address}/#search/0")
        shown(page)
        page.evaluate("window.scrollTo(0, document.body.scrollHeight)")
        while not held:
            page.wait_for_timeout(20)
        page.goto(f"{address}/#search/99999")
        page.wait_for_selector("#results.stale .card")
        for route in held:
            with contextlib.suppress(Error):  # the page has cancelled the request
                route.continue_()
        page.wait_for_timeout(500)
        assert page.locator("#results.stale .card").count() > 0
        visit.errors.clear()  # the browser logs the 404


def test_phone(browser, address, pictures, project):
    with Visit(browser, address, pictures, PHONE, has_touch=True, is_mobile=True, device_scale_factor=2) as visit:
        page = visit.open()
        page.wait_for_selector("#sample-list .card")
        visit.keep("12-phone-empty")
        page.tap("#sample-list .card >> nth=0")
        shown(page)
        visit.keep("13-phone-results")
        visit.check_access()
        # Results come before the options, which are a sheet at the bottom.
        top = page.locator("#results .card").first.bounding_box()["y"]
        assert top < 330
        assert page.locator("#controls summary").bounding_box()["y"] > top
        assert page.is_hidden("#dial-slider")
        page.tap("#controls summary")
        page.wait_for_selector("#dial-slider")
        visit.keep("26-phone-options")
        visit.check_access()
        page.tap("#controls summary")
        for where in VIEWS:
            visit.go(where)
            wide = page.evaluate("document.documentElement.scrollWidth - document.documentElement.clientWidth")
            assert wide == 0, f"{where} is {wide} pixels wider than the screen"
            visit.check_access()
        page.goto(f"{address}/#bits/0")
        page.wait_for_selector(".group .card")
        visit.keep("14-phone-bit")
        # Every column of figures has its heading, also where weighted and plain bits differ.
        about = httpx.get(f"{address}/api/project").json()
        about["evaluation"]["codes"][0]["plain"]["accuracy"] /= 2
        page.route("**/api/project", lambda route: route.fulfill(json=about))
        page.goto(f"{address}/#classes")
        page.reload()
        page.wait_for_selector(".lengths")
        visible = "cells => cells.filter((cell) => cell.offsetParent).map((cell) => cell.innerText)"
        assert page.eval_on_selector_all(".lengths thead tr > *", visible) == ["Code", "Weighted", "Plain"]
        assert len(page.eval_on_selector_all(".lengths tbody tr:first-child > *", visible)) == 3


def test_dark_and_loading(browser, address, pictures):
    with Visit(browser, address, pictures, color_scheme="dark") as visit:
        page = visit.open("#search/1")
        shown(page)
        visit.keep("15-dark")
        visit.check_access()
        for where in VIEWS:
            visit.go(where)
            visit.check_access()
        page.route("**/api/search", lambda route: None)  # a response that never comes
        page.goto(f"{address}/#search/2")
        page.wait_for_selector(".skeleton")
        visit.keep("16-loading")


def test_the_page_asks_for_the_key(browser, fitted, pictures):
    key = "a key of many letters"
    with running(fitted, rate=0, api_key=key, read_only=True) as address:
        visit = Visit(browser, address, pictures)
        with visit:
            visit.page.goto(address)
            visit.page.fill("#key-value", "a wrong key")
            visit.keep("17-key")
            visit.check_access()
            visit.page.keyboard.press("Enter")
            visit.page.wait_for_selector("#key-error:not([hidden])")
            visit.page.fill("#key-value", key)
            visit.page.keyboard.press("Enter")
            visit.page.wait_for_selector("#sample-list .card")
            assert f"{len(KINDS) * PER_CLASS} images" in visit.page.inner_text("#about")
            visit.check_access()
            visit.page.click("#log-out")
            visit.page.wait_for_selector("#key-value")
            assert visit.page.context.cookies() == []
            assert [error for error in visit.errors if "401" not in error] == []
            visit.errors.clear()


def test_a_service_that_has_stopped(browser, fitted, pictures):
    with running(fitted, rate=0, read_only=True) as address:
        visit = Visit(browser, address, pictures)
        page = visit.open("#search/1")
        shown(page)
    page.check("input[value=raw]")
    page.wait_for_selector("#search-error:not([hidden])")
    assert page.inner_text("#search-error")
    assert page.locator("#results.stale .card").count() >= 20  # the old results stay, dim
    assert "previous search" in page.inner_text("#search-status")
    visit.keep("18-gone")
    visit.context.close()


def _decoded(content):
    from cbid.data.decode import decode_image

    return decode_image(content)


def test_a_batch_that_is_too_large_is_split(browser, copied, pictures):
    """Eight images of 4,096 pixels have more than four times 5,000 together: the halves are sent."""
    with running(copied, rate=0, max_pixels=5000) as address:
        visit = Visit(browser, address, pictures)
        with visit:
            page = visit.open("#add")
            files = [{"name": f"{i}.png", "mimeType": "image/png", "buffer": png("spots", 950 + i)} for i in range(8)]
            page.set_input_files("#add-pick", files)
            expect(page.locator("#add-status")).to_contain_text("8 images added")
            expect(page.locator("#about")).to_contain_text("56 images")
            assert page.locator("#added .failed").count() == 0
            assert [error for error in visit.errors if "413" not in error] == []  # the browser logs the 413
            visit.errors.clear()


def test_a_coder_without_the_dial(browser, fitted, pictures, tmp_path):
    """A search by likeness is rejected; plain bits are offered only beside weights that differ."""
    with Project.fit(
        tmp_path / "i.cbid", fitted.parent / "shapes", descriptor="pixels", coder="ITQ", n_bits=16
    ) as made:
        id = int(made.ids[0])
        plain = made.search(made.code(id), 20, how="plain", exclude=id, vectors=made.vector(id)).ids[0].tolist()
    with running(tmp_path / "i.cbid", rate=0) as address, Visit(browser, address, pictures) as visit:
        assert httpx.get(f"{address}/api/project").json()["likeness"] is None
        answer = httpx.post(f"{address}/api/search", json={"query": {"id": id}, "likeness": 0.5})
        assert answer.status_code == 422
        assert "likeness=0.5" in answer.json()["error"]
        page = visit.open(f"#search/{id}")
        shown(page)
        assert page.is_hidden("#dial")
        assert page.is_hidden("#way-plain")
        assert page.inner_text("#name-weighted") == "Codes"
        assert page.is_hidden("#bits-slider")  # there is one length
        visit.check_access()
        answer = httpx.get(f"{address}/api/project").json()
        assert not answer["weighted"]
        page.route("**/api/project", lambda route: route.fulfill(json={**answer, "weighted": True}))
        page.reload()
        shown(page)
        page.check("input[value=plain]")
        page.wait_for_selector("#results[data-how=plain]:not(.stale)")
        assert shown(page)[:20] == plain
        visit.check_access()


def test_a_project_without_labels(browser, fitted, pictures, tmp_path):
    """Images are called by the names of their files, and nothing offers classes."""
    flat = tmp_path / "flat"
    flat.mkdir()
    for path in (fitted.parent / "shapes").rglob("*.png"):
        shutil.copy(path, flat)
    with pytest.warns(UserWarning, match="no labels"):
        Project.fit(tmp_path / "flat.cbid", flat, descriptor="pixels", n_bits=8).close()
    with running(tmp_path / "flat.cbid", rate=0) as address, Visit(browser, address, pictures) as visit:
        page = visit.open("#search/0")
        shown(page)
        names = page.eval_on_selector_all("#results .name", "names => names.map((name) => name.innerText)")
        assert {name.partition("_")[0] for name in names} <= set(KINDS)
        assert page.is_hidden("#filter")
        visit.keep("28-without-labels")
        visit.check_access()
        visit.go("#browse")
        expect(page.locator("#browse-status")).to_have_text(f"{len(KINDS) * PER_CLASS} images")
        assert page.is_hidden("#browse-class")
        visit.check_access()
        for where in ("#browse/%E0%A4%A", "#mistakes/%/%"):  # not encoded well
            visit.go(where)
            expect(page.locator("#browse-status")).to_have_text("No images.")


def test_images_with_several_labels(browser, fitted, pictures, tmp_path):
    """A match that shares one label with the query has no red frame."""
    files = sorted((fitted.parent / "shapes").rglob("*.png"))
    shape = {kind: "round" if kind in KINDS[:2] else "angular" for kind in KINDS}
    lines = [f"{path},{path.parent.name};{shape[path.parent.name]}" for path in files]
    (tmp_path / "list.csv").write_text("\n".join(["path,labels", *lines]) + "\n")
    with Project.fit(tmp_path / "l.cbid", tmp_path / "list.csv", descriptor="pixels", n_bits=16) as made:
        id = int(made.ids_of(KINDS[0])[0])
        labels = {int(i): set(made.record(i).labels) for i in made.ids}
    with running(tmp_path / "l.cbid", rate=0) as address, Visit(browser, address, pictures) as visit:
        page = visit.open(f"#search/{id}")
        for chosen in (None, KINDS[0], "angular"):
            if chosen:
                page.select_option("#own-label", label=chosen)
            wanted = {chosen} if chosen else labels[id]
            shown(page)
            framed = page.eval_on_selector_all(
                "#results .card", "cards => cards.map((c) => [Number(c.dataset.id), c.classList.contains('other')])"
            )
            assert len(framed) >= 20
            assert framed == [[i, not labels[i] & wanted] for i, _ in framed]
        visit.keep("29-several-labels")
        visit.check_access()
        page.goto(f"{address}/#search/{id + 1}")  # a new fragment: the old results stay until the search has finished
        expect(page.locator("#own-label option:checked")).to_have_text(", ".join(sorted(labels[id + 1])))


def test_a_project_of_vectors(browser, pictures, tmp_path):
    """There are no pictures to show, and the page requests none."""
    rng = np.random.default_rng(0)
    centres = 2 * rng.normal(size=(3, 8))
    X = (centres[np.repeat(range(3), 10)] + rng.normal(size=(30, 8))).astype(np.float32)
    np.savez(tmp_path / "v.npz", X=X, y=np.repeat(["a", "b", "c"], 10))
    Project.fit(tmp_path / "v.cbid", tmp_path / "v.npz", n_bits=16).close()
    with running(tmp_path / "v.cbid", rate=0) as address, Visit(browser, address, pictures) as visit:
        page = visit.open("#search/3")
        assert len(shown(page)) >= 20
        page.locator("#results .card").first.click()
        page.wait_for_selector("#why-bits button")
        assert page.is_hidden("#why-where")
        assert page.is_hidden("#why-file")
        visit.keep("27-vectors")
        visit.check_access()
