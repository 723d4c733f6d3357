// Writes numbers as people read them, each with its unit, and makes HTML elements.
"use strict";

const isMissing = (value) => value === null || value === undefined;

// Writes a number with four digits or more: "12,345", "12.3". Only very large and very small ones
// have an exponent.
function number(value) {
  if (isMissing(value) || Number.isNaN(value)) return "-";
  const size = Math.abs(value);
  if (size >= 1e15 || (size > 0 && size < 1e-4)) return d3.format(".3~g")(value);
  if (size >= 1000) return d3.format(",.0f")(value);
  return d3.format(".4~g")(value);
}

// Writes four digits in the largest unit in which the value is at least 1: "12.34 ms".
function scaled(value, units, format = d3.format(".4r")) {
  if (isMissing(value)) return "-";
  const size = Math.abs(value);
  const [step, unit] = units.find(([least]) => size >= least) || units[units.length - 1];
  return `${size === 0 ? 0 : format(value / step)} ${unit}`;
}

const kTimes = [[1, "s"], [1e-3, "ms"], [1e-6, "µs"], [1e-9, "ns"]];
const kBytes = [[1e12, "TB"], [1e9, "GB"], [1e6, "MB"], [1e3, "kB"], [1, "B"]];
const kMemory = [[2 ** 40, "TiB"], [2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];

const seconds = (value) => value >= 1000 ? `${d3.format(",.0f")(value)} s` : scaled(value, kTimes);
const nanoseconds = (value) => seconds(value * 1e-9);
const bytes = (value) => scaled(value, kBytes);
// Memory that a GPU has or holds is in GiB; messages and their rates are in GB, as links are.
const memory = (value) => scaled(value, kMemory);
const memoryTick = (value) => scaled(value, kMemory, d3.format(".4~r"));

// Returns ticks of a scale that are round in the unit that they are shown in: of bytes up to 80 GiB
// they are round in GiB. In d3 only logarithmic scales have a `base`.
function ticksOf(scale, count, unit) {
  const [low, high] = scale.domain();
  const inUnits = unit === "bytes" ? kMemory.find(([least]) => high >= least) : null;
  const step = inUnits ? inUnits[0] : 1;
  const ticks = (scale.base ? logTicks : d3.ticks)(low / step, high / step, count);
  return ticks.map((value) => value * step);
}

const percent = (value) => isMissing(value) ? "-" : `${d3.format(".1f")(100 * value)} %`;

// Writes a share that is said to be so "at most": rounded up.
const percentAtMost = (value) => percent(Math.ceil(1000 * value - 1e-6) / 1000);

// Writes a value by the unit of its column.
function withUnit(value, unit) {
  if (isMissing(value)) return "-";
  if (typeof value === "string") return value;
  if (unit === "s") return seconds(value);
  if (unit === "bytes") return memory(value);
  if (unit === "share") return percent(value);
  if (unit === "%") return `${d3.format(".4~g")(value)} %`;
  return unit ? `${number(value)} ${unit}` : number(value);
}

// Returns a function that writes times along an axis: all in one unit that suits the span, with
// enough digits to tell ticks apart.
function timeTick(spanNs, stepNs) {
  const [step, unit] = kTimes.find(([least]) => spanNs * 1e-9 >= least) || kTimes[3];
  const digits = Math.max(0, Math.ceil(-Math.log10(stepNs * 1e-9 / step) - 1e-6));
  const format = d3.format(`,.${digits}f`);
  return (ns) => `${format(ns * 1e-9 / step)} ${unit}`;
}

// Keeps the texts of an axis from being cut where the axis ends, `right` pixels from the left.
const keepTicksInside = (axis, x, right) => axis.selectAll(".tick text")
  .attr("text-anchor", (tick) => x(tick) > right - 30 ? "end" : "middle");

// Makes an element with attributes and children: make("td", {class: "text"}, "a", element). Text is
// always text: nothing of the data is read as HTML.
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "onclick") element.onclick = value;
    else if (key === "style") Object.assign(element.style, value);
    else element.setAttribute(key, value);
  }
  element.append(...children);
  return element;
}

// Makes an element that shows a rounded number and carries the exact one.
const exact = (value, text) => make("data", {value: String(value)}, text);

const shortened = (text, most) => text.length > most ? `${text.slice(0, most - 1)}\u2026` : text;

const byId = (id) => document.getElementById(id);

// Makes a definition list of pairs of a name and a text.
function definitions(pairs) {
  return make("dl", {}, ...pairs.filter(([, text]) => text !== null).map(([name, text]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, text))));
}

// The box that follows the pointer.
const tip = {
  show(event, title, pairs) {
    const box = byId("tip");
    box.replaceChildren(make("strong", {}, title), definitions(pairs));
    box.hidden = false;
    const {width, height} = box.getBoundingClientRect();
    const right = event.clientX + 16 + width > window.innerWidth;
    const below = event.clientY + 18 + height > window.innerHeight;
    box.style.left = `${Math.max(4, right ? event.clientX - width - 12 : event.clientX + 16)}px`;
    box.style.top = `${Math.max(4, below ? event.clientY - height - 12 : event.clientY + 18)}px`;
  },
  hide() { byId("tip").hidden = true; },
};
