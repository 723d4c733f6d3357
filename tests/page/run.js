// A page of one run: zoom by wheel, keys and brush, search, legend, selection, theme.
"use strict";

see(async () => {
  const timeline = report.timeline;
  const canvas = document.getElementById("canvas");
  const domain = () => [timeline.t0, timeline.t1];
  const middle = timeline.gutter + timeline.plot / 2;
  seen.title = document.title;
  seen.failure = document.getElementById("failure").hidden ? "" : "shown";
  seen.numbers = {};
  for (const figure of document.querySelectorAll("#numbers > div"))
    seen.numbers[figure.querySelector("dt").textContent] = valuesIn(figure)[0];
  seen.whole = domain();
  seen.rectangles = timeline.picture.counts.rectangles;

  mouse(canvas, "wheel", timeline.gutter + timeline.plot / 4, 20, {deltaY: -500, ctrlKey: true});
  await frame();
  seen.wheeled = domain();
  mouse(canvas, "wheel", middle, 20, {deltaY: -500});
  await frame();
  seen.scrolled = domain();  // a plain wheel scrolls, it does not zoom
  press(canvas, "+");
  await frame();
  seen.pressed = domain();
  mouse(canvas, "mousedown", middle, 20);
  mouse(canvas, "mousemove", middle - 100, 20);
  mouse(canvas, "mouseup", middle - 100, 20);
  await frame();
  seen.panned = domain();
  press(canvas, "0");
  await frame();
  seen.reset = domain();

  const overlay = document.querySelector("#overview .overlay");
  const window_ = document.querySelector("#overview .selection");
  window_.remove();  // it covers all; a new window is drawn on what lies behind
  const left = timeline.gutter;
  mouse(overlay, "mousedown", timeline.plot / 2, 10);
  mouse(overlay, "mousemove", timeline.plot * 3 / 4, 10);
  mouse(overlay, "mouseup", timeline.plot * 3 / 4, 10);
  await frame();
  seen.brushed = domain();
  press(canvas, "0");

  type(document.getElementById("search"), "F3");
  await pause(200);
  await frame();
  seen.found = document.getElementById("matches").textContent;
  document.getElementById("next").click();
  await frame();
  seen.match = document.querySelector("#selected strong").textContent;
  type(document.getElementById("search"), "");
  await pause(200);

  press(canvas, "0");
  press(canvas, "Escape");
  press(canvas, "ArrowRight");
  await frame();
  seen.selected = document.getElementById("selected").textContent;
  press(canvas, "ArrowRight");
  await frame();
  seen.selectedNext = document.getElementById("selected").textContent;
  press(canvas, "0");
  await frame();
  mouse(canvas, "mousemove", timeline.gutter + 3, timeline.laid.rows[1].y + 5);
  seen.tip = document.getElementById("tip").hidden ? ""
    : document.getElementById("tip").textContent;

  // The widest idle stretch between two events of the first rank's compute.
  const {lane, y} = timeline.laid.rows.find((row) => row.lane && row.lane.computes);
  const idle = (i) => lane.start[i + 1] - lane.end[i];
  const i = d3.scan(d3.range(lane.count - 1), (a, b) => idle(b) - idle(a));
  const at = (lane.end[i] + lane.start[i + 1]) / 2 / timeline.model.end;
  mouse(canvas, "mousemove", timeline.gutter + at * timeline.plot, y + 5);
  seen.gap = {ns: idle(i), tip: document.getElementById("tip").textContent};
  const legend = [...document.querySelectorAll("#legend button")];
  seen.legend = legend.map((button) => button.textContent);
  legend.forEach((button) => button.click());
  await frame();
  seen.rectanglesOfNone = timeline.picture.counts.rectangles;
  legend.forEach((button) => button.click());
  await frame();
  seen.rectanglesAgain = timeline.picture.counts.rectangles;
  const communication = document.getElementById("communication");
  const lanes = (value) => {
    communication.value = value;
    communication.dispatchEvent(new Event("change"));
    return frame();
  };
  await lanes("none");
  seen.rowsOfCompute = timeline.picture.counts.rows;
  await lanes("all");
  seen.rowsOfAll = timeline.picture.counts.rows;

  const paper = () => getComputedStyle(document.body).backgroundColor;
  const corner = () => [...timeline.picture.context.getImageData(0, 0, 1, 1).data].slice(0, 3);
  seen.light = [paper(), `rgb(${corner().join(", ")})`];
  document.getElementById("theme").click();
  await frame();
  await frame();
  seen.dark = [paper(), `rgb(${corner().join(", ")})`];

  seen.splitBars = document.querySelectorAll("#split-chart rect[x]").length;
  seen.memoryNote = valuesIn(document.getElementById("memory-note"));
  seen.memoryText = document.getElementById("memory-note").textContent;
  seen.memoryShown = !document.getElementById("memory-section").hidden;
});
