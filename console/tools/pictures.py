"""Takes a picture of each view of a console, for the guide and for a look by eye.

The arguments are the URL and a folder. Each view is taken wide and light; the first is taken dark on a phone, too.
"""

import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WAIT = 60_000  # milliseconds: a guard, not a measure
VIEWS = {
    "overview": "Workers",
    "processes?sort=wait": "Printer",
    "types": "Methods",
    "ends": "asks for the manager",
    "tree": "Supervisor",
    "waits": "Till",
}


def shoot(page, base, folder, view, text, name):
    page.goto(f"{base}#{view}")
    page.locator("#view", has_text=text).first.wait_for(timeout=WAIT)
    # Rates need a second look, and shares some more.
    page.wait_for_timeout(3000)
    page.screenshot(path=str(Path(folder) / f"console-{name}.png"))


def main(url, folder):
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for scheme, width, height in (("light", 1100, 620), ("dark", 390, 700)):
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": height})
            page = context.new_page()
            page.goto(url)
            base = page.url
            end = "" if scheme == "light" else "-phone"
            for view, text in VIEWS.items():
                shoot(page, base, folder, view, text, view.split("?")[0] + end)
            # The first that waits at the printer's full mailbox.
            page.goto(f"{base}#processes?state=suspended")
            page.locator("#view td.pid a").first.click(timeout=WAIT)
            page.locator("#view", has_text="Why it waits").wait_for(timeout=WAIT)
            page.screenshot(path=str(Path(folder) / f"console-process{end}.png"))
            context.close()
        browser.close()


main(*sys.argv[1:])
