"""Runs jobs in one browser, several at a time, until its input ends.

Each line of the input is a job as JSON: its `id`, the name of the `job`, which is one of `JOBS`, and its `arguments`.
Each line of the output is the `id` of a job, and its `report`, or the `error` that has ended it. Starting a browser takes
longer than most jobs: so there is one for all tests.
"""

import asyncio
import json
import sys
import traceback

import processor
import trace_view
import views
from playwright.async_api import async_playwright

JOBS = {"perfetto": processor.run, "trace": trace_view.run, "views": views.run}


async def do(browser, job):
    try:
        done = {"report": await JOBS[job["job"]](browser, *job["arguments"])}
    except Exception:
        done = {"error": traceback.format_exc()}
    print(json.dumps({"id": job["id"], **done}), flush=True)


async def main():
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        async with asyncio.TaskGroup() as jobs:
            while line := await asyncio.to_thread(sys.stdin.readline):
                jobs.create_task(do(browser, json.loads(line)))
        await browser.close()


asyncio.run(main())
