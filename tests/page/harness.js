// Stands before the page's own scripts: notes what goes wrong, and tells the test what was seen.
"use strict";

const seen = {problems: []};

window.addEventListener("error", (event) => seen.problems.push(String(event.message)));
window.addEventListener("unhandledrejection", (event) => seen.problems.push(String(event.reason)));
document.addEventListener("securitypolicyviolation", (event) =>
  seen.problems.push(`blocked: ${event.violatedDirective} ${event.blockedURI}`));
for (const name of ["error", "warn"]) {
  const original = console[name];
  console[name] = (...words) => {
    seen.problems.push(words.join(" "));
    original(...words);
  };
}

// Virtual time runs ahead of the frames that a browser without a screen makes: frames by the clock.
window.requestAnimationFrame = (draw) => setTimeout(() => draw(performance.now()), 16);
window.cancelAnimationFrame = clearTimeout;

const frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
const pause = (ms) => new Promise((done) => setTimeout(done, ms));

// An event as a mouse makes it, at a point of the element.
function mouse(element, type, x, y, more = {}) {
  const box = element.getBoundingClientRect();
  const Kind = type === "wheel" ? WheelEvent : MouseEvent;
  element.dispatchEvent(new Kind(type, {bubbles: true, cancelable: true, view: window,
    clientX: box.left + x, clientY: box.top + y, ...more}));
}

function press(element, key) {
  element.dispatchEvent(new KeyboardEvent("keydown", {key, bubbles: true, cancelable: true}));
}

function type(element, text) {
  element.value = text;
  element.dispatchEvent(new Event("input", {bubbles: true}));
}

// The exact values of the <data> elements inside.
const valuesIn = (element) =>
  [...element.querySelectorAll("data")].map((each) => Number(each.value));

// Runs the test's steps, then leaves what was seen in the document, or with the frame around.
async function see(steps) {
  try {
    await frame();
    await steps();
  } catch (error) {
    seen.problems.push(`the test: ${error.stack}`);
  }
  seen.requests = performance.getEntriesByType("resource").length;
  seen.overflow = document.documentElement.scrollWidth - window.innerWidth;
  seen.width = window.innerWidth;
  const text = JSON.stringify(seen);
  if (window.parent !== window) {
    window.parent.postMessage(text, "*");
    return;
  }
  const element = document.createElement("pre");
  element.id = "seen";
  element.textContent = text;
  document.body.append(element);
}
