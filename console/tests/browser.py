"""Opens every view of a console in a browser, and prints what they show as one line of JSON.

The arguments are the URL, a folder for pictures, and for each view after `#` a text to wait for, as `VIEW: TEXT`; `{`
and `}` stand around the text of a link to follow from there.
"""

import json
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

WAIT = 60_000  # milliseconds: a guard, not a measure


def main(url, folder, *steps):
    faults = []
    shown = {}
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for scheme, width in (("light", 1200), ("dark", 390)):
            context = browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
            page = context.new_page()
            page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
            page.on("pageerror", lambda error: faults.append(str(error)))
            # A page that is left, or reloaded, ends what it was still asking for; that is not a failure.
            page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}: {request.failure}")
                    if request.failure != "net::ERR_ABORTED" else None)
            page.add_init_script(
                "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.blockedURI))")
            page.goto(url)
            base = page.url
            if "token" in base:
                faults.append(f"the token stays in the address: {base}")
            for step in steps:
                view, text = step.split(": ", 1)
                page.goto(f"{base}#{view}")
                link = None
                if text.startswith("{"):
                    link, text = text[1:].split("}", 1)
                    page.locator("#view a", has_text=link).first.click(timeout=WAIT)
                page.locator("#view", has_text=text).wait_for(timeout=WAIT)
                name = f"{scheme}-{view.split('?')[0]}{'-one' if link else ''}"
                page.screenshot(path=str(Path(folder) / f"{name}.png"))
                shown[name] = page.inner_text("#view")
                # Tables scroll by themselves; the page does not, to the side.
                if page.evaluate("document.documentElement.scrollWidth > innerWidth"):
                    faults.append(f"{name} is wider than {width} pixels")
            # By the keyboard alone: from the top to the second view.
            page.goto(f"{base}#overview")
            page.reload()
            for _ in range(3):
                page.keyboard.press("Tab")
            page.keyboard.press("Enter")
            page.wait_for_function("location.hash === '#processes'", timeout=WAIT)
            # A process with the name of the colours is killed from its page, and its row goes.
            page.once("dialog", lambda dialog: dialog.accept())
            page.goto(f"{base}#processes?filter={scheme}")
            page.locator("#view td.pid a").click(timeout=WAIT)
            page.locator("#view pre", has_text="Clerk").wait_for(timeout=WAIT)
            page.get_by_role("button", name="Tap").click(timeout=WAIT)
            page.locator("#view", has_text="Tap: 0 messages").wait_for(timeout=WAIT)
            page.get_by_role("button", name="Kill").click(timeout=WAIT)
            page.locator("#view", has_text="is not alive").wait_for(timeout=WAIT)
            page.goto(f"{base}#processes?filter={scheme}")
            page.locator("#view", has_text="No process matches.").wait_for(timeout=WAIT)
            # Nobody looks: nothing is asked for, and nothing is shown as new.
            page.get_by_role("button", name="Pause").click()
            page.wait_for_function("document.getElementById('status').textContent === 'paused'", timeout=WAIT)
            context.close()
        browser.close()
    print(json.dumps({"faults": faults, "shown": shown}))


main(*sys.argv[1:])
