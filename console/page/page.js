// The page of the console: it watches one view at a time, and only while it is visible.
"use strict";

const VIEWS = {
  overview: "Overview",
  processes: "Processes",
  types: "Types and methods",
  ends: "Ends",
  tree: "Tree",
  waits: "Waits",
  trace: "Trace",
};
const element = (id) => document.getElementById(id);
const view = element("view");
const controls = element("controls");
const status = element("status");

let source = null;
let again = 0; // the timer after a refusal
let isPaused = false;
let before = null; // the last answer of this view, for rates

/** Makes an element. Text is always text: what processes are called is never markup. */
function make(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (value !== null && value !== undefined && value !== false) made.setAttribute(key, value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined).map((child) =>
    child instanceof Node ? child : String(child)));
  return made;
}

const count = (value) => Number(value).toLocaleString("en");
const state = (name, says = name) => make("span", { class: `state ${name}` }, says);
/** A link to a process. The node is the same in nearly all PIDs: it is shortened. */
const brief = (text) => text.replace(/<[0-9a-f]+\./g, "<…");
const toProcess = (pid) =>
  make("a", { href: `#process?${new URLSearchParams({ pid })}`, title: pid }, brief(pid));

/** A table. A column is a heading, a function from a row to its content, and whether that is a number. */
function table(caption, columns, rows, nothing) {
  if (rows.length === 0) return make("p", { class: "empty" }, nothing);
  const head = make("tr", {}, ...columns.map(([heading, , kind]) =>
    make("th", { scope: "col", class: kind === "number" ? "number" : null }, heading)));
  const body = rows.map((row) => make("tr", {}, ...columns.map(([, content, kind]) => {
    const value = content(row);
    return make("td", { class: kind }, kind === "number" && typeof value === "number" ? count(value) : value ?? "");
  })));
  return make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": caption },
    make("table", {}, make("thead", {}, head), make("tbody", {}, ...body)));
}

function figures(pairs) {
  return make("dl", { class: "figures" }, ...pairs.map(([name, value, isBad]) =>
    make("div", {}, make("dt", {}, name),
      make("dd", { class: isBad ? "bad" : null }, typeof value === "number" ? count(value) : value))));
}

/** How much a number has grown each second since the last answer. */
function rate(now, then, seconds) {
  return then === undefined || seconds <= 0 ? "" : count(Math.max(0, Math.round((now - then) / seconds)));
}

/** A button that acts on a process: after a question, unless it only looks. */
function act(name, row) {
  const button = make("button", { type: "button", "data-act": name }, name[0].toUpperCase() + name.slice(1));
  button.addEventListener("click", async () => {
    if (name !== "tap" && !confirm(`${button.textContent} ${row.type} ${row.pid}?`)) return;
    const answer = await fetch(`/api/${name}?${new URLSearchParams({ pid: row.pid })}`, { method: "POST" });
    status.textContent = await answer.text();
  });
  return button;
}

/** A type without the paths of its parts: that of a process written by hand has them. */
const type = (name) => name && make("span", { title: name }, name.replace(/[A-Za-z_][A-Za-z0-9_]*::/g, ""));
const name = (row) => row.label ?? row.names?.[0] ?? "";
const runs = (row) => row.runs && make("span", {}, type(row.runs.type), row.runs.method ? " in " : "",
  row.runs.method ? make("code", {}, row.runs.method) : "", " ", toProcess(row.runs.pid));

/** A time in seconds, in the unit that reads best. */
function time(seconds) {
  if (seconds === null || seconds === undefined) return "";
  const units = [[1e9, "ns"], [1e6, "µs"], [1e3, "ms"]];
  const [factor, unit] = units.find(([factor]) => seconds * factor < 1000) ?? [1, "s"];
  return `${Number((seconds * factor).toPrecision(3))} ${unit}`;
}
const share = (cpu) => cpu > 0 ? `${(100 * cpu).toFixed(1)} %` : "";
function ago(seconds) {
  if (seconds < 60) return `${Math.floor(seconds)} s ago`;
  return seconds < 3600 ? `${Math.floor(seconds / 60)} min ago` : `${(seconds / 3600).toFixed(1)} h ago`;
}

/** The colours of types in lanes, by their order of appearance: as many as the style sheet has. */
const COLOURS = 6;
const colours = new Map();
function colour(name) {
  if (!colours.has(name)) colours.set(name, colours.size % COLOURS);
  return colours.get(name);
}

/** What a worker has run at the last hundred looks, as a strip. */
function lane(row, number) {
  const drawing = "http://www.w3.org/2000/svg";
  const part = (name, attributes) => {
    const made = document.createElementNS(drawing, name);
    for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
    return made;
  };
  const busy = row.lane.reduce((sum, [looks, name]) => sum + (name === null ? 0 : looks), 0);
  const strip = part("svg", { class: "lane", viewBox: "0 0 100 10", preserveAspectRatio: "none", role: "img",
    "aria-label": `worker ${number}: busy at ${busy} of the last 100 looks` });
  let at = 100 - row.lane.reduce((sum, [looks]) => sum + looks, 0);
  for (const [looks, name] of row.lane) {
    const place = { x: at, y: 0, width: looks, height: 10 };
    if (name !== null) strip.append(part("rect", { class: `colour${colour(name)}`, ...place }));
    at += looks;
  }
  return strip;
}

function legend(workers) {
  const names = new Set(workers.flatMap((row) => row.lane.map(([, name]) => name).filter((name) => name !== null)));
  return names.size === 0 ? null : make("p", { class: "legend" }, ...[...names].sort().map((name) =>
    make("span", { class: `key colour${colour(name)}` }, type(name))));
}

const RENDER = {
  overview(now, then, seconds) {
    const dead = Object.values(now.dead_letters).reduce((sum, value) => sum + value, 0);
    return [
      figures([
        ["processes", now.live], ["messages a second", rate(now.messages, then?.messages, seconds)],
        ["steps a second", rate(now.steps, then?.steps, seconds)],
        ["spawns a second", rate(now.spawned, then?.spawned, seconds)],
        ["suspended at full mailboxes", now.suspended], ["pending timers", now.timers],
        ["stalled steps", now.stalls, now.stalls > 0], ["dead letters", dead],
        ["ready, in the shared queue", now.global_queue], ["threads in blocking steps", now.blocked_threads],
        ["workers awake at most", now.awake_limit],
      ]),
      make("h2", {}, "Workers"),
      table("Workers", [
        ["worker", (row) => now.workers.indexOf(row), "number"],
        ["the last second", (row) => lane(row, now.workers.indexOf(row)), "wide"],
        ["runs", (row) => runs(row) ?? state("idle", row.thread === null ? "no thread" : "nothing")],
        ["for", (row) => row.runs?.for_seconds > 0 ? time(row.runs.for_seconds) : "", "number"],
        ["ready behind it", (row) => row.queue, "number"],
      ], now.workers, "The runtime has no workers."),
      legend(now.workers),
      make("h2", {}, "Threads"),
      table("Threads", [
        ["state", (row) => state(row.state)], ["worker", (row) => row.worker ?? "", "number"], ["runs", runs],
        ["steps", (row) => row.steps, "number"], ["messages", (row) => row.messages, "number"],
        ["parked", (row) => row.parks, "number"], ["stolen", (row) => row.stolen, "number"],
      ], now.threads, "No thread runs."),
      make("h2", {}, "Dead letters"),
      figures(Object.entries(now.dead_letters)),
    ];
  },

  processes(now, then, seconds) {
    const past = new Map((then?.rows ?? []).map((row) => [row.pid, row]));
    return [
      make("p", {}, `${count(now.rows.length)} of ${count(now.matching)} that match, of ${count(now.total)} alive`),
      table("Processes", [
        ["PID", (row) => toProcess(row.pid), "pid"], ["type", (row) => type(row.type)], ["name", name],
        ["state", (row) => state(row.state, brief(row.says))], ["mailbox", (row) => row.mailbox, "number"],
        ["waiting", (row) => time(row.wait), "number"], ["CPU", (row) => share(row.cpu), "number"],
        ["messages/s", (row) => rate(row.messages, past.get(row.pid)?.messages, seconds) || row.rate, "number"],
        ["messages", (row) => row.messages, "number"], ["steps", (row) => row.steps, "number"],
        ["worker", (row) => row.worker ?? "", "number"],
      ], now.rows, "No process matches."),
    ];
  },

  process(now) {
    const { row } = now;
    const short = [["PID", (row) => toProcess(row.pid), "pid"], ["type", (row) => type(row.type)],
      ["label", (row) => row.label], ["state", (row) => brief(row.state)], ["mailbox", (row) => row.mailbox, "number"]];
    const step = ({ waits_for, process }) => make("li", {},
      waits_for.method ? make("code", {}, waits_for.method) : "room in the mailbox", " of ",
      toProcess(waits_for.pid), process ? ` (${process.type}, ${process.mailbox} queued): ${process.state}` :
        ", which is in another program or has ended");
    const why = now.chain.length === 0 ? make("p", { class: "empty" }, "It waits for no other process.")
      : make("ol", { class: "chain" }, ...now.chain.map(step));
    return [
      make("h2", {}, type(row.type), " ", make("code", {}, row.pid)),
      make("p", {}, state(row.state), " ", row.says),
      figures([["mailbox", row.mailbox], ["a message waits", time(row.wait) || "not measured"],
        ["CPU", share(row.cpu) || "0 %"], ["messages", row.messages], ["steps", row.steps],
        ["worker", row.worker ?? "none"], ["entry", row.entry]]),
      make("p", {}, `Label: ${row.label ?? "none"}. Names: ${row.names.join(", ") || "none"}. Spawned at `,
        make("code", {}, row.place ?? "an unknown place"), row.parent ? " by " : "",
        row.parent ? toProcess(row.parent) : ""),
      now.may_act ? make("p", {}, act("tap", row), " ", act("stop", row), " ", act("kill", row)) : null,
      ...(now.tap ? [
        make("h2", {}, `Tap: ${count(now.tap.messages.length)} messages${now.tap.is_over ? "" : " so far"}`),
        table("Tap", [["after", (row) => time(row.at), "number"],
          ["method", (row) => make("code", {}, type(row.method))],
          ["value", (row) => make("span", { class: row.value === null ? "empty" : "reason" },
            row.value ?? row.why, row.is_cut ? " … and more" : "")]], now.tap.messages,
         now.tap.is_over ? "None came within ten seconds." : "None yet."),
      ] : []),
      ...(now.state ? [
        make("h2", {}, "State"),
        now.state.text === null ? make("p", { class: "empty" }, now.state.why)
          : make("div", { class: "scroll", tabindex: "0", role: "region", "aria-label": "State" },
            make("pre", {}, now.state.text)),
        now.state.is_cut ? make("p", { class: "bad" }, "It is longer: the rest is not shown.") : null,
      ] : []),
      make("h2", {}, "Why it waits"), why,
      now.is_cycle ? make("p", { class: "bad" }, "They wait for each other: none of them goes on.") : null,
      make("h2", {}, `Waiting for it: ${count(now.awaited_by)}`),
      table("Waiting for it", short, now.waiter_rows, "No process waits for just this one."),
      make("h2", {}, `Spawned by it: ${count(now.children)}`),
      table("Spawned by it", short, now.child_rows, "None that is alive."),
    ];
  },

  types(now, then, seconds) {
    const past = new Map((then?.rows ?? []).map((row) => [row.type, row]));
    const those = (row) => make("a", { href: `#processes?${new URLSearchParams({ type: row.type })}` }, type(row.type));
    const methods = now.rows.flatMap((row) => row.methods.map((method) => ({ type: row.type, ...method })));
    methods.sort((one, other) => other.cpu - one.cpu || other.timed - one.timed);
    return [table("Types", [
      ["type", those], ["processes", (row) => row.processes, "number"], ["active", (row) => row.active, "number"],
      ["suspended", (row) => row.suspended, "number"], ["queued", (row) => row.queued, "number"],
      ["longest mailbox", (row) => row.longest_mailbox, "number"], ["CPU", (row) => share(row.cpu), "number"],
      ["waiting p50", (row) => time(row.wait?.p50), "number"], ["p99", (row) => time(row.wait?.p99), "number"],
      ["messages/s", (row) => rate(row.messages, past.get(row.type)?.messages, seconds), "number"],
      ["messages", (row) => row.messages, "number"], ["steps", (row) => row.steps, "number"],
    ], now.rows, "No process is alive."),
    make("h2", {}, "Methods"),
    table("Methods", [
      ["type", (row) => type(row.type)],
      ["method", (row) => row.method ? make("code", {}, row.method) : "answers, timers, signals"],
      ["CPU", (row) => share(row.cpu), "number"], ["timed", (row) => row.timed, "number"],
      ["handling p50", (row) => time(row.handling?.p50), "number"],
      ["p99", (row) => time(row.handling?.p99), "number"],
    ], methods, "No method has been seen to run yet."),
    make("p", { class: "empty" }, "Sampled while someone looks, of the last 30 to 60 seconds: CPU is the share of one ",
      "processor; waiting is that of mailboxes with messages; handling is until the end or the first await.")];
  },

  ends(now) {
    const part = (title, list, columns, nothing) => [
      make("h2", {}, `${title}: ${count(list.total)}`), table(title, columns, list.rows, nothing)];
    const when = ["when", (row) => ago(row.ago)];
    const process = ["process", (row) => make("span", {}, type(row.type) ?? "elsewhere", " ",
      toProcess(row.pid ?? row.to), row.label ? ` ${row.label}` : "")];
    const told = (row) => make("span", {}, row.supervised ? "its supervisor " : "",
      ...row.told.slice(0, 5).flatMap((pid) => [toProcess(pid), " "]),
      row.told.length > 5 ? "and others" : "");
    return [
      now.missed > 0 ? make("p", { class: "bad" }, `${count(now.missed)} came too fast to be kept.`) : null,
      ...part("Abnormal ends", now.ends, [when, process,
        ["in", (row) => row.method ? make("code", {}, row.method) : ""],
        ["reason", (row) => make("span", { class: "reason" }, row.reason)],
        ["told", told], ["spawned at", (row) => make("code", {}, row.place ?? "")],
      ], "None since the console began."),
      ...part("Stalled steps", now.stalls, [when, process,
        ["in", (row) => row.method ? make("code", {}, row.method) : ""],
        ["lasted", (row) => `${row.is_over ? "" : "more than "}${time(row.lasted)}`, "number"],
        ["its worker", (row) => row.taken_over ? "went to another thread" : "waited"],
      ], "None since the console began."),
      ...part("Dead letters", now.dead_letters, [when, ["message", (row) => make("code", {}, type(row.message))],
        ["from", (row) => row.from ? toProcess(row.from) : "not known"], ["to", process[1]],
        ["why", (row) => row.reason],
      ], "None since the console began."),
    ];
  },

  tree(now) {
    const cut = now.is_cut ? `, of which ${count(now.rows.length)} are shown` : "";
    return [
      make("p", {}, `Who has spawned whom: ${count(now.total)} processes${cut}.`),
      table("Tree", [
        ["type", (row) => make("span", {}, make("span", { class: "depth" }, "  ".repeat(row.depth)), type(row.type))],
        ["PID", (row) => toProcess(row.pid), "pid"], ["label", (row) => row.label],
        ["state", (row) => brief(row.state)], ["children", (row) => row.children, "number"],
        ["mailbox", (row) => row.mailbox, "number"],
      ], now.rows, "No process is alive."),
    ];
  },

  waits(now) {
    const one = (waiter) => make("li", {}, type(waiter.process.type), " ", toProcess(waiter.process.pid),
      waiter.method ? " in " : " for room in the mailbox", waiter.method ? make("code", {}, waiter.method) : "");
    return [
      make("p", {}, `${count(now.total)} processes wait for one other each. Those with the most behind them are first.`),
      table("Waits", [
        ["waited for", (row) => type(row.process?.type) ?? "elsewhere"], ["PID", (row) => toProcess(row.pid), "pid"],
        ["state", (row) => brief(row.process?.state ?? "")], ["behind it", (row) => row.behind, "number"],
        ["who", (row) => make("ul", { class: "chain" }, ...row.waiters.slice(0, 10).map(one))],
      ], now.rows, "No process waits for just one other."),
    ];
  },

  trace: renderSlow,
};

/** What the form of the processes offers. */
function offer(query) {
  controls.hidden = false;
  const choose = (name, options) => make("select", { name }, ...options.map((option) =>
    make("option", { value: option, selected: query.get(name) === option ? "" : null }, option || "any")));
  controls.replaceChildren(
    make("label", {}, "sorted by", choose("sort", ["mailbox", "wait", "cpu", "rate", "messages", "steps"])),
    make("label", {}, "state", choose("state",
      ["", "ready", "running", "blocking", "idle", "suspended", "waiting"])),
    make("label", {}, "PID, type, label, name or place contains",
      make("input", { name: "filter", type: "search", value: query.get("filter") ?? "" })),
    make("label", {}, "type", make("input", { name: "type", type: "search", value: query.get("type") ?? "" })),
    make("button", { type: "submit" }, "Show"),
  );
}

controls.addEventListener("submit", (event) => {
  event.preventDefault();
  const query = new URLSearchParams([...new FormData(controls)].filter(([, value]) => value !== ""));
  location.hash = `#processes?${query}`;
});

function place() {
  const [name, query = ""] = location.hash.slice(1).split("?");
  return { name: Object.hasOwn(RENDER, name) ? name : "overview", query: new URLSearchParams(query) };
}

function close() {
  clearTimeout(again);
  source?.close();
  source = null;
}

/** Watches the view that the address names, if anybody looks. */
function watch() {
  close();
  if (isPaused || document.hidden) {
    status.textContent = "paused";
    return;
  }
  const { name, query } = place();
  if (name === "trace") {
    source = lookAtTrace(query);
    return;
  }
  query.set("view", name);
  const render = RENDER[name];
  status.textContent = "connecting…";
  source = new EventSource(`/api/watch?${query}`);
  source.onmessage = (event) => {
    const now = JSON.parse(event.data);
    const at = performance.now();
    const seconds = before ? (at - before.at) / 1000 : 0;
    show(render(now, before?.now, seconds));
    before = { now, at };
    status.textContent = `as of ${new Date().toLocaleTimeString()}`;
  };
  source.addEventListener("missing", (event) => {
    close();
    status.textContent = "ended";
    show([make("p", { class: "empty" }, event.data)]);
  });
  source.addEventListener("over", () => pause(true));
  source.onerror = () => {
    const isRefused = source?.readyState === EventSource.CLOSED;
    status.textContent = isRefused ? "refused: too many watch, or the program is another; trying again"
      : "no connection; trying again";
    // After a loss the browser tries again by itself, after a refusal it does not.
    if (isRefused) again = setTimeout(watch, 3000);
  };
}

/** Replaces what is shown, and keeps the focus and the places that were scrolled to. */
function show(children) {
  const scrolled = [...view.querySelectorAll(".scroll")].map((region) => [region.scrollLeft, region.scrollTop]);
  const focused = document.activeElement;
  const mark = view.contains(focused) ? ["href", "data-act"].find((key) => focused.hasAttribute(key)) : undefined;
  const value = mark && focused.getAttribute(mark);
  view.replaceChildren(...children.filter((child) => child !== null));
  view.querySelectorAll(".scroll").forEach((region, number) => {
    if (scrolled[number]) [region.scrollLeft, region.scrollTop] = scrolled[number];
  });
  if (mark) [...view.querySelectorAll(`[${mark}]`)].find((same) => same.getAttribute(mark) === value)?.focus();
}

function pause(is) {
  isPaused = is;
  element("pause").setAttribute("aria-pressed", String(is));
  element("pause").textContent = is ? "Go on" : "Pause";
  watch();
}

/** Shows the view that the address names. */
function go() {
  const { name, query } = place();
  before = null;
  view.replaceChildren();
  controls.hidden = true;
  if (name === "processes") offer(query);
  element("views").replaceChildren(...Object.entries(VIEWS).map(([key, title]) =>
    make("a", { href: `#${key}`, "aria-current": key === name ? "page" : null }, title)));
  document.title = `${VIEWS[name] ?? "Process"} – Postroom console`;
  watch();
}

element("pause").addEventListener("click", () => pause(!isPaused));
document.addEventListener("visibilitychange", watch);
addEventListener("hashchange", go);
go();
