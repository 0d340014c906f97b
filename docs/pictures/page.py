"""The pictures of the page, taken in a real browser.

    python docs/pictures/page.py PROJECT ID

Those that are kept show a held-out image of ``cbid demo``'s project, in fewer colours, so that they stay small.
"""

import shutil
import sys
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import Page, sync_playwright

from cbid.web import ServiceSettings, create_app, listen, make_server

FOLDER = Path(__file__).parent
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]
DESKTOP, PHONE = {"width": 1280, "height": 800}, {"width": 390, "height": 844}


def main(project: str, id: str) -> None:
    sock = listen("127.0.0.1", 0)
    server = make_server(create_app(project, ServiceSettings(rate=0, read_only=True, seconds=60.0)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    address = f"http://127.0.0.1:{sock.getsockname()[1]}"
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport=DESKTOP, reduced_motion="reduce")
            page.set_default_timeout(120_000)
            page.goto(f"{address}/#search/{id}")
            page.wait_for_selector("#results .card")
            keep(page, "page")
            page.locator("#results .card").nth(3).click()
            page.wait_for_selector("#why-bits button")
            page.locator("#why-bits button").nth(2).hover()
            page.click("#why-where")
            page.wait_for_selector("#why .heat")
            keep(page, "page_why")
            page.goto(f"{address}/#classes")
            page.wait_for_selector(".confusion")
            keep(page, "page_classes")
            page = browser.new_page(viewport=PHONE, reduced_motion="reduce", is_mobile=True, has_touch=True)
            page.goto(f"{address}/#search/{id}")
            page.wait_for_selector("#results .card")
            keep(page, "page_phone")
            browser.close()
    finally:
        server.should_exit = True
        thread.join()


def keep(page: Page, name: str) -> None:
    """Save a screenshot once the pictures are there, with 160 colours."""
    page.wait_for_timeout(2000)
    target = FOLDER / f"{name}.png"
    page.screenshot(path=target)
    with Image.open(target) as picture:
        small = picture.convert("RGB").quantize(160)
    small.save(target, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
