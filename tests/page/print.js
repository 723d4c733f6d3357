// A live page that is printed: all ranks are in sight, the pictures are as wide as the paper, hints
// about the mouse are gone and the changes are listed; then all is as before.
"use strict";

const byName = (id) => document.getElementById(id);
const isShown = (element) => element.getClientRects().length > 0;

async function answered(count) {
  const end = performance.now() + 20000;
  while ((report.live.answered || 0) < count || report.live.busy) {
    if (performance.now() > end) throw new Error(`no answer ${count}`);
    await pause(10);
  }
}

// The canvas: its size, the rows below its lower edge, and whether its times go to the end.
function picture() {
  const {timeline} = report;
  const {rows} = timeline.laid;
  const {width, height, canvas} = timeline.picture;
  const below = rows.filter((row) => row.y + row.height > height).map((row) => row.title || "lane");
  const {end} = timeline.model;
  return {width, height, shown: [canvas.offsetWidth, canvas.offsetHeight], below,
    ranks: rows.filter((row) => row.title).length, ends: timeline.t1 === end,
    right: timeline.gutter + timeline.plot};
}

const state = () => ({picture: picture(), scrolled: byName("lanes").scrollTop,
  theme: document.documentElement.dataset.theme || "",
  widths: ["split-chart", "memory-chart", "overview", "axis"].map((id) =>
    byName(id).querySelector("svg").getAttribute("width")),
  communication: byName("communication").value});

see(async () => {
  await answered(1);
  seen.first = {...picture(), scrolls: byName("lanes").scrollHeight > byName("lanes").clientHeight,
    lanes: report.timeline.laid.rows.filter((row) => row.lane).length};
  const control = byName("control-train.recompute");
  control.value = JSON.stringify("selective");
  control.dispatchEvent(new Event("change"));
  await answered(2);
  byName("theme").click();
  byName("communication").value = "all";
  byName("communication").dispatchEvent(new Event("change"));
  byName("lanes").scrollTop = 40;
  await frame();
  seen.before = state();

  window.dispatchEvent(new Event("beforeprint"));
  seen.printed = state();
  seen.scrolls = [...document.querySelectorAll(".scroll, .chart, .lanes")].filter((box) =>
    isShown(box) && getComputedStyle(box).overflow !== "visible").length;
  seen.bubbles = [...document.querySelectorAll("#split-chart .row")].map((row) => {
    const inside = row.ownerSVGElement.getBoundingClientRect().right;
    const last = row.querySelector("text:last-of-type");
    return {text: last.textContent, inside: last.getBoundingClientRect().right <= inside,
      bar: row.querySelectorAll("rect.bubble").length};
  });
  seen.hints = [...document.querySelectorAll(".hint, .controls button")].filter(isShown)
    .map((element) => element.textContent).join(" ");
  seen.changes = [...document.querySelectorAll("#live-changes li")].filter(isShown)
    .map((line) => line.textContent);
  seen.difference = isShown(byName("live-difference"));
  seen.form = isShown(byName("controls"));
  window.dispatchEvent(new Event("afterprint"));
  seen.after = state();
});
