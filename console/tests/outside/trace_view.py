"""Uses the view "Trace" of a console in a browser, and prints what it shows as one line of JSON.

The arguments are the URL, a folder for pictures, and the name of the messages to take one apart of.
"""

import json
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WAIT = 60_000  # milliseconds: a guard, not a measure


def main(url, folder, name):
    faults = []
    shown = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for scheme, width in (("light", 1100), ("dark", 390)):
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 760})
            page = context.new_page()
            page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.add_init_script(
                "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.blockedURI))")

            def look(kind):
                page.screenshot(path=str(Path(folder) / f"{scheme}-{kind}.png"))
                shown[f"{scheme}-{kind}"] = page.inner_text("#view")
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append(f"{scheme}-{kind} is wider than {width} pixels")

            page.goto(url)
            page.get_by_role("link", name="Trace").click(timeout=WAIT)
            # By the keyboard.
            page.get_by_role("button", name="Record 2 s").focus(timeout=WAIT)
            page.keyboard.press("Enter")
            page.get_by_role("button", name="Recording…").wait_for(timeout=WAIT)
            page.get_by_role("button", name="Record 2 s").wait_for(timeout=WAIT)
            row = page.locator("#view tr", has_text=name)
            row.first.wait_for(timeout=WAIT)
            look("trace")
            with page.expect_download(timeout=WAIT) as download:
                page.get_by_role("link", name="Download for Perfetto").click(timeout=WAIT)
            shown[f"{scheme}-file"] = Path(download.value.path()).stat().st_size
            row.locator("a").first.click(timeout=WAIT)
            page.locator("#view", has_text="Where its time went").wait_for(timeout=WAIT)
            look("slow")
            # The bars lie in the track of the whole, and are as wide as they took.
            shown[f"{scheme}-bars"] = page.evaluate("""[...document.querySelectorAll(".bar")].map((bar) => {
                const [own, track] = [bar, bar.parentElement].map((element) => element.getBoundingClientRect());
                return [(own.left - track.left) / track.width, own.width / track.width];
            })""")
            context.close()
        browser.close()
    print(json.dumps({"faults": faults, "shown": shown}))


main(*sys.argv[1:])
