// The view "Trace": it records, lists the slowest messages, and shows where the time of one of them went.
"use strict";

/** A time of so many nanoseconds, with three digits. */
function lasted(nanoseconds) {
  const [unit, size] = [["s", 1e9], ["ms", 1e6], ["µs", 1e3], ["ns", 1]].find(([, size]) => nanoseconds >= size) ??
    ["ns", 1];
  return `${Number((nanoseconds / size).toPrecision(3))} ${unit}`;
}

/** The node is the same in nearly all PIDs. */
const shortened = (text) => text.replace(/<[0-9a-f]+\./g, "<…");

/** A part of a message's time and what it is made of: a bar where the part lies in the whole, and a text. */
function bars(part, whole, from = 0, depth = 0) {
  const percent = (value) => `${(100 * value) / Math.max(1, whole)}%`;
  const times = part.kind === "mailbox" && part.count > 1 ? `, ${count(part.count)} of them` : "";
  const bar = make("span", { class: `bar ${part.kind}` });
  bar.style.marginInlineStart = percent(from);
  bar.style.width = percent(part.took);
  const text = make("span", {}, `${shortened(part.says)}${times}`);
  text.style.paddingInlineStart = `${depth}rem`;
  const rows = [make("li", {},
    make("span", { class: "number" }, lasted(part.took)),
    make("span", { class: "track", "aria-hidden": "true" }, bar),
    text)];
  let next = from;
  for (const inner of part.parts) {
    rows.push(...bars(inner, whole, next, depth + 1));
    next += inner.took;
  }
  if (part.others > 0) {
    const others = { says: `${count(part.others)} shorter parts`, kind: "unknown", took: part.others_took, parts: [] };
    rows.push(...bars(others, whole, next, depth + 1));
  }
  return rows;
}

/** One message taken apart. */
function renderOne(one) {
  const { whole, remedy } = one;
  const lost = one.lost > 0 ? `${count(one.lost)} records were lost: what they would show is unknown.` : null;
  return [
    make("p", {}, make("a", { href: "#trace" }, "All messages")),
    make("h2", {}, shortened(whole.says), " took ", lasted(whole.took), one.is_finished ? "" : " so far"),
    lost && make("p", { class: "bad" }, lost),
    remedy && make("p", {}, "Most would have helped: ", make("strong", {}, shortened(remedy.says)),
      `. It would have taken ${lasted(remedy.then)}.`),
    make("h2", {}, "Where its time went"),
    make("ul", { class: "bars" }, ...bars(whole, whole.took)),
    make("h2", {}, "The critical path"),
    table("The critical path", [
      ["after", (row) => lasted(row.from - one.sent), "number"], ["took", (row) => lasted(row.took), "number"],
      ["why", (row) => shortened(row.says)],
    ], one.path, "It took no time."),
    make("h2", {}, "As text"),
    make("pre", { class: "scroll", tabindex: "0", role: "region", "aria-label": "As text" }, one.text),
  ];
}

/** The button that begins a recording. */
function recordButton(isRecording) {
  const button = make("button", { type: "button", "data-act": "record", disabled: isRecording ? "" : null },
    isRecording ? "Recording…" : "Record 2 s");
  button.addEventListener("click", async () => {
    button.disabled = true;
    const answer = await fetch("/api/record?milliseconds=2000", { method: "POST" });
    status.textContent = (await answer.text()).trim();
    watch();
  });
  return button;
}

/** The slowest messages of the last recording, by type. */
function renderSlow(now) {
  const one = (slowest) => make("a", { href: `#trace?${new URLSearchParams({ flow: slowest.flow })}` },
    lasted(slowest.took));
  const others = (row) => make("span", {}, ...row.slowest.slice(1).flatMap((slowest) => [one(slowest), " "]));
  const file = now.file === null ? null : make("a", { href: "/api/trace", download: "postroom.pftrace" },
    `Download for Perfetto (${count(Math.ceil(now.file / 1024))} KiB)`);
  return [
    make("p", {}, recordButton(now.state === "recording"), " ", file),
    now.error && make("p", { class: "bad" }, now.error),
    now.state === "made" ? figures([
      ["recorded", lasted(now.duration)], ["events", now.events], ["records lost", now.lost, now.lost > 0],
    ]) : null,
    now.state === "made" ? make("h2", {}, "The slowest messages") : null,
    table("The slowest messages", [
      ["message", (row) => row.name], ["slowest", (row) => one(row.slowest[0])], ["others", others],
      ["p50", (row) => lasted(row.p50), "number"], ["p99", (row) => lasted(row.p99), "number"],
      ["messages", (row) => row.count, "number"],
    ], now.rows, now.state === "made" ? "No message was sent and handled meanwhile."
      : "There is no recording yet. A console with controls can make one."),
  ];
}

/** Looks at the last recording until it is made; what `close` ends. */
function lookAtTrace(query) {
  let timer = 0;
  let isClosed = false;
  const flow = query.get("flow");
  const look = async () => {
    const answer = await fetch(`/api/slow${flow ? `?${new URLSearchParams({ flow })}` : ""}`).catch(() => null);
    if (isClosed) return;
    if (!answer?.ok) {
      status.textContent = answer ? "none" : "no connection; trying again";
      if (answer) show([make("p", { class: "empty" }, await answer.text()),
        make("p", {}, make("a", { href: "#trace" }, "All messages"))]);
      else timer = setTimeout(look, 3000);
      return;
    }
    const now = await answer.json();
    if (isClosed) return;
    show(flow ? renderOne(now) : renderSlow(now));
    status.textContent = now.state === "recording" ? "recording…" : `as of ${new Date().toLocaleTimeString()}`;
    if (now.state === "recording") timer = setTimeout(look, 500);
  };
  look();
  return {
    readyState: 0,
    close() {
      isClosed = true;
      clearTimeout(timer);
    },
  };
}
