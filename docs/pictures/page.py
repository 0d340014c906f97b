"""The picture of the page: a search in a project, in a real browser.

    python docs/pictures/page.py PROJECT ID

The one that is kept shows a held-out image of ``cbid demo``'s project, in fewer colours, so that it stays small.
"""

import shutil
import sys
import threading
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from cbid.web import ServiceSettings, create_app, listen, make_server

TARGET = Path(__file__).with_name("page.png")
FLAGS = ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update"]


def main(project: str, id: str) -> None:
    sock = listen("127.0.0.1", 0)
    server = make_server(create_app(project, ServiceSettings(rate=0, read_only=True)))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [sock]}, daemon=True)
    thread.start()
    try:
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 840}, reduced_motion="reduce")
            page.set_default_timeout(120_000)
            page.goto(f"http://127.0.0.1:{sock.getsockname()[1]}/#search/{id}")
            page.wait_for_selector("#results .card")
            page.wait_for_selector("#cost-raw br", state="attached")
            page.wait_for_timeout(2000)
            page.screenshot(path=TARGET)
            browser.close()
    finally:
        server.should_exit = True
        thread.join()
    with Image.open(TARGET) as picture:
        small = picture.convert("RGB").quantize(160)
    small.save(TARGET, optimize=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
