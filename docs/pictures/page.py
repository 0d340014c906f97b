"""The pictures of the page, taken in a real browser.

    python docs/pictures/page.py PROJECT ID

Those that are kept show a held-out image of ``cbid demo``'s project, in fewer colours, so that they stay small.
Sheets show every state of the page on a screen of 1280 x 800 and on a phone of 390 x 844, each also in the dark.
``tutorial.py`` uses the functions of this file.
"""

import io
import shutil
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from PIL import Image
from playwright.sync_api import Browser, JSHandle, Page, sync_playwright

from cbid.web import ServiceSettings, create_app, listen, make_server

FOLDER = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main(project: str, id: str) -> None:
    with browsing(project) as (browser, address):
        page = browser.new_page(viewport=DESKTOP, reduced_motion="reduce")
        page.set_default_timeout(120_000)
        page.goto(f"{address}/#search/{id}")
        page.wait_for_selector("#results .card")
        keep(page, "page")
        page.locator("#results .card").nth(3).click()
        page.wait_for_selector("#why-bits button")
        page.locator("#why-bits button").nth(2).hover()
        page.click("#why-where")
        page.wait_for_selector("#why-where-text:has-text('Bright parts decide')")
        keep(page, "page_why")
        page.goto(f"{address}/#classes")
        page.wait_for_selector(".confusion")
        keep(page, "page_classes")
        page = browser.new_page(viewport=PHONE, reduced_motion="reduce", is_mobile=True, has_touch=True)
        page.goto(f"{address}/#search/{id}")
        page.wait_for_selector("#results .card")
        keep(page, "page_phone")
        for name, viewport, columns, more in (
            ("page_states", DESKTOP, 3, {}),
            ("page_states_dark", DESKTOP, 3, {"color_scheme": "dark"}),
            ("page_states_phone", PHONE, 6, {"is_mobile": True, "has_touch": True}),
            ("page_states_phone_dark", PHONE, 6, {"is_mobile": True, "has_touch": True, "color_scheme": "dark"}),
        ):
            page = browser.new_page(viewport=viewport, reduced_motion="reduce", **more)
            page.set_default_timeout(120_000)
            sheet(list(states(page, address, id)), name, columns)


def states(page: Page, address: str, id: str) -> Iterator[bytes]:
    """Yield a screenshot of each state of the page."""

    def show(place: str, ready: str) -> None:
        page.goto("about:blank")
        page.goto(f"{address}/{place}")
        page.wait_for_selector(ready)

    def shot() -> bytes:
        page.wait_for_timeout(1000)  # pictures load, and results fade
        return page.screenshot()

    results = "#results:not(.stale) .card"
    letter = {"name": "letter.png", "mimeType": "image/png", "buffer": b"Not an image."}

    show("", "#sample-list .card")
    yield shot()
    page.dispatch_event("body", "dragenter", {"dataTransfer": _dragged(page)})
    page.wait_for_selector("#overlay:not([hidden])")
    yield shot()

    show(f"#search/{id}", results)
    yield shot()
    page.route("**/api/search", lambda route: None)  # an answer that never comes
    page.goto(f"{address}/#search/0")
    page.wait_for_selector(".skeleton")
    yield shot()
    page.unroute("**/api/search")

    show(f"#search/{id}+140-20", "#unlike .chip")
    page.wait_for_selector(results)
    yield shot()
    page.goto(f"{address}/#search/99999")
    page.wait_for_selector("#results.stale .card")
    yield shot()

    show(f"#search/{id}", results)
    page.set_input_files("#pick", letter)
    page.wait_for_selector("#search-error:not([hidden])")
    page.wait_for_selector(results)
    yield shot()

    show(f"#search/{id}", results)
    if page.is_hidden("#filter-class"):
        page.click("#controls summary")
    for name in ("coffee", "china"):
        page.select_option("#filter-class", name)
        page.wait_for_selector(results)
    page.locator("#filter-chips").scroll_into_view_if_needed()
    yield shot()

    show(f"#search/{id}", results)
    page.locator("#results .card").nth(3).click()
    page.wait_for_selector("#why-bits button")
    yield shot()
    page.click("#why-where")
    page.wait_for_selector("#why-where-text:has-text('Bright parts decide')")
    yield shot()

    show("#browse", "#browse-list .card")
    for i in (1, 2):
        page.locator("#browse-list .act").nth(i).click()
    yield shot()
    show("#duplicates", "#browse-status:not(:empty)")
    page.locator("#twins-slider").fill("80")
    page.wait_for_selector("#browse-groups section")
    yield shot()

    show("#classes", ".confusion")
    yield shot()
    learning = {"phase": "learning", "done": 26, "total": 64, "seconds": 4.2}
    page.route("**/api/refit", lambda route: route.fulfill(json=learning))  # a few bits are learned in no time
    page.click("#refit-start")
    page.wait_for_selector("#refit-status:has-text('bit 26 of 64')")
    page.locator("#refit").scroll_into_view_if_needed()
    yield page.screenshot()
    page.unroute("**/api/refit")
    show("#mistakes/china/china", "#browse-list .card")
    yield shot()

    show("#bits", "#bit-weights button")
    page.wait_for_selector("#bit-groups .card")
    yield shot()
    show("#add", "#view-add")
    page.set_input_files("#add-pick", [letter, {**letter, "name": "notes.txt", "mimeType": "text/plain"}])
    page.wait_for_selector("#add-status:has-text('failed')")
    yield shot()

    page.route("**/api/project", lambda route: route.fulfill(status=401, json={"error": "an API key is needed"}))
    show("", "#key[open]")
    yield shot()
    page.unroute("**/api/project")


def _dragged(page: Page) -> JSHandle:
    """Return the content of a file that is dragged over the page."""
    return page.evaluate_handle("""() => {
        const transfer = new DataTransfer();
        transfer.items.add(new File(["?"], "photo.png", { type: "image/png" }));
        return transfer;
    }""")


def sheet(shots: list[bytes], name: str, columns: int) -> None:
    """Save screenshots beside each other, at half their size."""
    pictures = [Image.open(io.BytesIO(shot)).convert("RGB").reduce(2) for shot in shots]
    width, height = pictures[0].size
    rows = -(-len(pictures) // columns)
    whole = Image.new("RGB", (columns * (width + 8) - 8, rows * (height + 8) - 8), (128, 128, 128))
    for i, picture in enumerate(pictures):
        whole.paste(picture, ((i % columns) * (width + 8), (i // columns) * (height + 8)))
    whole.quantize(128).save(FOLDER / f"{name}.png", optimize=True)


@contextmanager
def browsing(project: str | Path) -> Iterator[tuple[Browser, str]]:
    """Start the service of a project and a browser; yield the browser and the address."""
    sock = listen("127.0.0.1", 0)
    server = make_server(create_app(project, ServiceSettings(rate=0, seconds=60.0)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            yield browser, f"http://127.0.0.1:{sock.getsockname()[1]}"
            browser.close()
    finally:
        server.should_exit = True
        thread.join()


def keep(page: Page, name: str, colours: int = 160) -> None:
    """Save a screenshot once the pictures are there, with few colours."""
    page.wait_for_timeout(2000)
    target = FOLDER / f"{name}.png"
    page.screenshot(path=target)
    with Image.open(target) as picture:
        small = picture.convert("RGB").quantize(colours)
    small.save(target, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
