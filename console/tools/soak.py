"""Watches the memory of the example with a page open, and prints a line each minute.

`target/tools/browser/bin/python console/tools/soak.py PROGRAM MINUTES`, where PROGRAM is the built example `console`.
"""

import subprocess
import sys
import time

from playwright.sync_api import sync_playwright

VIEWS = ("overview", "processes", "types", "ends", "tree", "waits")


def resident(pid):
    """The resident memory in MiB, and the processor time in seconds."""
    with open(f"/proc/{pid}/statm") as file:
        pages = int(file.read().split()[1])
    with open(f"/proc/{pid}/stat") as file:
        fields = file.read().rsplit(")", 1)[1].split()
    return pages * 4096 / 2**20, (int(fields[11]) + int(fields[12])) / 100


def main(program, minutes):
    minutes = int(minutes)
    # Longer than the minutes take: on a busy machine they take more than a minute each.
    example = subprocess.Popen([program, str(minutes * 120 + 600)], stdout=subprocess.PIPE, text=True)
    try:
        url = example.stdout.readline().strip()
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
            page = browser.new_page()
            # The machine may be busy with other things.
            page.set_default_timeout(600_000)
            page.goto(url)
            base = page.url
            print("minute view resident_mib cpu_seconds events", flush=True)
            for minute in range(minutes + 1):
                view = VIEWS[minute % len(VIEWS)]
                # A watch ends after ten minutes: the page is opened anew.
                page.goto(f"{base}#{view}")
                page.reload()
                memory, spent = resident(example.pid)
                text = page.inner_text("#status") if minute else "-"
                print(minute, view, f"{memory:.1f} {spent:.0f} {text!r}", flush=True)
                if minute < minutes:
                    time.sleep(60)
            browser.close()
    finally:
        example.terminate()
        example.wait()


main(*sys.argv[1:])
