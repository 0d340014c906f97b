"""The pictures of the tutorial: runs its commands in a temporary folder, and takes the page and the report.

python docs/pictures/tutorial.py
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from page import FOLDER, PHONE, browsing, keep

SCREEN = {"width": 1000, "height": 750}
COLOURS = 128  # few, so that the files are small


def main() -> None:
    os.chdir(tempfile.mkdtemp())
    text = (FOLDER.parent / "tutorial.md").read_text()
    exec(re.search(r"```python\n(.*?)```", text, re.S)[1], {"__name__": "tutorial"})  # make_digits.py
    for command in re.findall(r"^\$ cbid ((?:fit|report) .*)", text, re.M):
        subprocess.run([sys.executable, "-m", "cbid", *command.split()], check=True)
    with browsing("digits.cbid") as (browser, address):
        page = browser.new_page(viewport=SCREEN, reduced_motion="reduce")
        page.goto(address)
        page.set_input_files("#pick", "new/590.png")
        page.wait_for_selector("#results:not(.stale) .card")
        keep(page, "tutorial_search", COLOURS)
        page.locator("#results .card").nth(1).click()
        page.wait_for_selector("#why-bits button")
        page.locator("#why-bits button").nth(2).hover()
        keep(page, "tutorial_why", COLOURS)
        page.goto(f"{address}/#classes")
        page.wait_for_selector(".confusion")
        page.locator(".confusion").scroll_into_view_if_needed()
        keep(page, "tutorial_classes", COLOURS)
        page.goto(Path("digits.html").absolute().as_uri())
        keep(page, "tutorial_report", COLOURS)
        page = browser.new_page(viewport=PHONE, reduced_motion="reduce", is_mobile=True, has_touch=True)
        page.goto(address)
        page.set_input_files("#pick", "new/590.png")
        page.wait_for_selector("#results:not(.stale) .card")
        keep(page, "tutorial_phone", COLOURS)


if __name__ == "__main__":
    main()
