"""Uses the view "Trace" of a console in a browser, and returns what it shows.

The arguments are the URL, a folder for pictures, and the name of the messages to take one apart of.
"""

from pathlib import Path

from waiting import WAIT


async def run(browser, url, folder, name):
    faults = []
    shown = {}
    # One after the other: each looks at the last recording.
    for scheme, width in (("light", 1100), ("dark", 390)):
        context = await browser.new_context(color_scheme=scheme, viewport={"width": width, "height": 760})
        try:
            await use(await context.new_page(), scheme, url, folder, name, faults, shown)
        finally:
            await context.close()
    return {"faults": faults, "shown": shown}


async def use(page, scheme, url, folder, name, faults, shown):
    page.on("console", lambda message: message.type in ("error", "warning") and faults.append(message.text))
    page.on("pageerror", lambda error: faults.append(str(error)))
    await page.add_init_script(
        "addEventListener('securitypolicyviolation', (event) => console.error('policy', event.blockedURI))")

    async def look(kind):
        await page.screenshot(path=str(Path(folder) / f"{scheme}-{kind}.png"))
        shown[f"{scheme}-{kind}"] = await page.inner_text("#view")
        if await page.evaluate("document.documentElement.scrollWidth > innerWidth"):
            faults.append(f"{scheme}-{kind} is wider than its window")

    await page.goto(url)
    await page.get_by_role("link", name="Trace").click(timeout=WAIT)
    # By the keyboard.
    await page.get_by_role("button", name="Record 2 s").focus(timeout=WAIT)
    await page.keyboard.press("Enter")
    await page.get_by_role("button", name="Recording…").wait_for(timeout=WAIT)
    await page.get_by_role("button", name="Record 2 s").wait_for(timeout=WAIT)
    row = page.locator("#view tr", has_text=name)
    await row.first.wait_for(timeout=WAIT)
    await look("trace")
    async with page.expect_download(timeout=WAIT) as download:
        await page.get_by_role("link", name="Download for Perfetto").click(timeout=WAIT)
    shown[f"{scheme}-file"] = Path(await (await download.value).path()).stat().st_size
    await row.locator("a").first.click(timeout=WAIT)
    await page.locator("#view", has_text="Where its time went").wait_for(timeout=WAIT)
    await look("slow")
    # The bars lie in the track of the whole, and are as wide as they took.
    shown[f"{scheme}-bars"] = await page.evaluate("""[...document.querySelectorAll(".bar")].map((bar) => {
        const [own, track] = [bar, bar.parentElement].map((element) => element.getBoundingClientRect());
        return [(own.left - track.left) / track.width, own.width / track.width];
    })""")
