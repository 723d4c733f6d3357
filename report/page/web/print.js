// The page on paper: while it is printed, its pictures are as wide as a sheet, whole, and light.
"use strict";

const kPaperWidth = 715;  // pixels between the margins of a sheet of A4
const kPaperLanes = 750;  // the most pixels that the timeline's lanes take of a sheet's height

const paper = {printing: false};

const widthOf = (element) => paper.printing ? kPaperWidth : element.clientWidth;

// Returns the changes on a live page in words: "Tensor (tp), parallel.tp: 8 -> 4".
function changedLines({changes, run, now}) {
  if (!run || !run.began || !run.began.values) return [];
  const before = {...run.inputs.settings, ...run.began.values};
  const after = {...changes, ...now};
  return Object.keys(changes).filter((key) => before[key] !== after[key]).map((key) => {
    const {name, unit} = controlOf(key) || {};
    const [was, is] = [before[key], after[key]].map((value) =>
      isMissing(value) ? "not set" : controlWord(value));
    return `${name ? `${name}, ` : ""}${key}: ${was} → ${is}${unit ? ` ${unit}` : ""}`;
  });
}

function listChanges(live) {
  const lines = live ? changedLines(live) : [];
  byId("live-changes").replaceChildren(...lines.map((text) => make("li", {}, text)));
  byId("live-section").classList.toggle("changed", lines.length > 0);
}

// redraw(): draws all pictures anew, at once.
function startPrinting(redraw) {
  const root = document.documentElement, lanes = byId("lanes");
  let theme, scrolled;
  window.addEventListener("beforeprint", () => {
    if (paper.printing) return;
    theme = root.dataset.theme;
    scrolled = lanes.scrollTop;
    paper.printing = true;
    root.dataset.theme = "light";
    root.classList.add("on-paper");
    listChanges(report.live);
    redraw();
  });
  window.addEventListener("afterprint", () => {
    if (!paper.printing) return;
    paper.printing = false;
    root.classList.remove("on-paper");
    if (theme) root.dataset.theme = theme;
    else delete root.dataset.theme;
    redraw();
    lanes.scrollTop = scrolled;
  });
}
