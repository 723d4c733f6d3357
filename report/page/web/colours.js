// Kinds of work and their colours; legends; the choice of a light or dark theme. Colours are names
// of CSS variables, which the style sheet sets for each theme.
"use strict";

// Compute first, then communication, in the order in which the page's data names them (`kinds` and
// `scopes`).
const kKinds = [
  {name: "forward", colour: "--forward"},
  {name: "backward", colour: "--backward"},
  {name: "input gradient", colour: "--input-gradient"},
  {name: "weight gradient", colour: "--weight-gradient"},
  {name: "optimizer", colour: "--optimizer"},
  {name: "tensor", colour: "--tensor"},
  {name: "pipeline", colour: "--pipeline"},
  {name: "data", colour: "--data"},
  {name: "context", colour: "--context"},
  {name: "expert", colour: "--expert"},
  // For profiles: copies, and work whose purpose its name alone does not tell.
  {name: "copies", colour: "--line"},
  {name: "communication", colour: "--context"},
  {name: "compute", colour: "--forward"},
];
const kComputeKinds = 5, kOptimizer = 4, kOtherCompute = kKinds.length - 1;

const cssColour = (variable) =>
  getComputedStyle(document.documentElement).getPropertyValue(variable).trim();

// Reads the colours of the present theme for drawing on a canvas, which knows no CSS variables.
function readPalette() {
  const palette = {kinds: kKinds.map((kind) => cssColour(kind.colour))};
  for (const name of ["paper", "ink", "soft", "line", "idle", "accent", "mark", "on-colour"])
    palette[name] = cssColour(`--${name}`);
  palette.font = getComputedStyle(document.body).fontFamily;
  return palette;
}

// Fills a legend with swatches and names. With `toggle` each is a button that hides its kind.
function fillLegend(element, entries, toggle = null) {
  element.replaceChildren(...entries.map(({name, colour, key, kind = ""}) => {
    const swatch = make("i", {class: kind, style: {background: `var(${colour})`}});
    if (!toggle) return make("span", {}, swatch, name);
    return make("button", {
      type: "button", "aria-pressed": "true", "data-kind": key,
      onclick: (event) => {
        const button = event.currentTarget;
        const shown = button.getAttribute("aria-pressed") !== "true";
        button.setAttribute("aria-pressed", String(shown));
        toggle(key, shown);
      },
    }, swatch, name);
  }));
}

// Lets the theme follow the system until the button says otherwise. `changed` draws anew.
function startTheme(changed) {
  const root = document.documentElement;
  const dark = matchMedia("(prefers-color-scheme: dark)");
  const isDark = () => root.dataset.theme ? root.dataset.theme === "dark" : dark.matches;
  const button = byId("theme");
  const label = () => { button.textContent = isDark() ? "Light" : "Dark"; };
  button.onclick = () => {
    root.dataset.theme = isDark() ? "light" : "dark";
    label();
    changed();
  };
  dark.addEventListener("change", () => { label(); changed(); });
  label();
}
