"""Opens every view of a console in a browser, wide and light, and narrow and dark, and returns what they show.

The arguments are the URL, a folder for pictures, and for each view after `#` a text to wait for, as `VIEW: TEXT`; `{`
and `}` stand around the text of a link to follow from there.
"""

import asyncio
from pathlib import Path

from waiting import WAIT


async def run(browser, url, folder, *steps):
    faults = []
    shown = {}
    pages = {}
    try:
        for scheme, width in (("light", 1200), ("dark", 390)):
            context = await browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 900})
            pages[scheme] = await context.new_page()
        # All look before one acts: so each sees the same processes.
        await asyncio.gather(*(look(pages[scheme], scheme, url, folder, steps, faults, shown) for scheme in pages))
        await asyncio.gather(*(act(pages[scheme], scheme) for scheme in pages))
    finally:
        for page in pages.values():
            await page.context.close()
    return {"faults": faults, "shown": shown}


async def look(page, scheme, url, folder, steps, faults, shown):
    page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    # A page that is left, or reloaded, ends what it was still asking for; that is not a failure.
    page.on("requestfailed", lambda request: faults.append(f"failed: {request.url}: {request.failure}")
            if request.failure != "net::ERR_ABORTED" else None)
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.blockedURI))")
    await page.goto(url)
    base = page.url
    if "token" in base:
        faults.append(f"the token stays in the address: {base}")
    for step in steps:
        view, text = step.split(": ", 1)
        await page.goto(f"{base}#{view}")
        link = None
        if text.startswith("{"):
            link, text = text[1:].split("}", 1)
            await page.locator("#view a", has_text=link).first.click(timeout=WAIT)
        await page.locator("#view", has_text=text).wait_for(timeout=WAIT)
        name = f"{scheme}-{view.split('?')[0]}{'-one' if link else ''}"
        await page.screenshot(path=str(Path(folder) / f"{name}.png"))
        shown[name] = await page.inner_text("#view")
        # Tables scroll by themselves; the page does not, to the side.
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{name} is wider than its window")


async def act(page, scheme):
    base = page.url.split("#")[0]
    # By the keyboard alone: from the top to the second view.
    await page.goto(f"{base}#overview")
    await page.reload()
    for _ in range(3):
        await page.keyboard.press("Tab")
    await page.keyboard.press("Enter")
    await page.wait_for_function("location.hash === '#processes'", timeout=WAIT)
    # A process with the name of the colours is killed from its page, and its row goes.
    page.once("dialog", lambda dialog: dialog.accept())
    await page.goto(f"{base}#processes?filter={scheme}")
    await page.locator("#view td.pid a").click(timeout=WAIT)
    await page.locator("#view pre", has_text="Clerk").wait_for(timeout=WAIT)
    await page.get_by_role("button", name="Tap").click(timeout=WAIT)
    await page.locator("#view", has_text="Tap: 0 messages").wait_for(timeout=WAIT)
    await page.get_by_role("button", name="Kill").click(timeout=WAIT)
    await page.locator("#view", has_text="is not alive").wait_for(timeout=WAIT)
    await page.goto(f"{base}#processes?filter={scheme}")
    await page.locator("#view", has_text="No process matches.").wait_for(timeout=WAIT)
    # No one looks: nothing is asked for, and nothing is shown as new.
    await page.get_by_role("button", name="Pause").click()
    await page.wait_for_function("document.getElementById('status').textContent === 'paused'", timeout=WAIT)
