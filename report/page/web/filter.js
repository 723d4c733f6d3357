// The filter of a table of many runs: texts, and conditions on columns such as "MFU > 30 %", in the
// units that the cells show. A condition that cannot be read is left out, and the reason is said.
"use strict";

// The signs of conditions. `more`: the cell's value minus the condition's.
const kHolds = {"<": (more) => more < 0, ">": (more) => more > 0, "<=": (more) => more <= 0,
  ">=": (more) => more >= 0, "=": (more) => more === 0};
const kScales = [[1, ""], [1e3, "k"], [1e6, "M"], [1e9, "G"]];

// Returns the units in which values of a column may be stated, like kTimes. "" is none.
function unitsOf(unit) {
  if (unit === "share") return [[0.01, "%"], [0.01, ""]];
  if (unit === "bytes") return [...kMemory, ...kBytes];
  if (unit === "s") return [...kTimes, [1e-6, "us"], [1, ""]];
  const names = unit === "d" ? ["", "d", "day", "days"] : ["", unit];
  return kScales.flatMap(([step, scale]) => names.map((name) => [step, scale + name]));
}

const withoutCommas = (text) => text.replace(/,/g, "");
const plainUnit = (text) => text.toLowerCase().replace(/\s|1(?=\/)/g, "");  // "k 1/s" is "k/s"

// Returns the value of a text such as "9.9 %", or null. `bare`: the unit where none is written.
function valueIn(text, unit, bare) {
  const [, digits, written] =
    withoutCommas(text).match(/^([-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?)(?![\d.])(.*)$/i) || [];
  if (digits === undefined) return null;
  const wanted = plainUnit(written) || plainUnit(bare);
  const found = unitsOf(unit).find(([, name]) => plainUnit(name) === wanted);
  return found ? digits * found[0] : null;
}

// Returns the places of the columns of that name, else of those whose key ends with it ("tp" of
// "parallel.tp"), else of those that begin so.
function columnsNamed(columns, name) {
  const last = (text) => text.slice(text.lastIndexOf(".") + 1);
  const ways = [(text) => text === name, (text) => last(text) === name,
    (text) => text.startsWith(name) || last(text).startsWith(name)];
  return ways.map((isMeant) => d3.range(columns.length)
    .filter((i) => isMeant(columns[i].name.toLowerCase()))).find(({length}) => length > 0) || [];
}

class RowFilter {
  constructor({columns, rows}) { Object.assign(this, {columns, rows}); }

  // Reads a filter. Returns a test of the number of a row, and a sentence for each condition that
  // is left out.
  read(text) {
    this.texts = this.texts || this.rows.map((row) => row.map((cell, i) =>
      isMissing(cell) ? "" : withoutCommas(cellText(cell, this.columns[i].unit)).toLowerCase()));
    // A comma separates conditions, but not the thousands of "12,345".
    const parts = text.replace(/\b\d{1,3}(?:,\d{3})+(?!\d)/g, withoutCommas).split(/,|\band\b/i)
      .map((part) => part.trim()).filter(Boolean);
    const tests = [], leftOut = [];
    for (const part of parts) {
      const word = part.toLowerCase();
      const isInside = (row) => this.texts[row].some((cell) => cell.includes(word));
      const found = part.match(/^(.+?)\s*(<=|>=|<|>|=)\s*(.*)$/);
      const {test, reason} = found ? this.condition(...found.slice(1)) : {test: isInside};
      if (test) tests.push(test);
      else if (d3.range(this.rows.length).some(isInside)) tests.push(isInside);
      else leftOut.push(`"${part}" is left out: ${reason}.`);
    }
    return {test: (row) => tests.every((test) => test(row)), leftOut};
  }

  // Returns the test of a condition, or the reason why there is none.
  condition(name, sign, text) {
    const {columns, rows, texts} = this;
    const named = columnsNamed(columns, name.toLowerCase());
    if (named.length === 0) return {reason: `no column begins with "${name}"`};
    if (named.length > 1)
      return {reason: `it may mean ${named.map((i) => columns[i].name).join(" or ")}`};
    const [at] = named, {unit} = columns[at];
    const bare = this.bareUnit(at), value = valueIn(text, unit, bare);
    const some = rows.find((row) => typeof row[at] === "number");
    // A cell that shows the value equals it, though it is rounded.
    const holds = (row) => typeof rows[row][at] === "number" && value !== null &&
      kHolds[sign](valueIn(texts[row][at], unit, bare) === value ? 0 : rows[row][at] - value);
    if (sign === "=" && rows.some((row) => typeof row[at] === "string"))
      return {test: (row) => texts[row][at] === text.toLowerCase() || holds(row)};
    if (some === undefined) return {reason: "the column has no numbers"};
    if (value !== null) return {test: holds};
    const example = `${cellText(some[at], unit)} ${shownUnit(columns[at])}`.trim();
    return {reason: `expected a value such as ${example}, found ${text ? `"${text}"` : "none"}`};
  }

  // Returns the unit of a column's cells where all have the same; "": they differ, or have none.
  bareUnit(at) {
    const units = new Set(this.texts.filter((_, row) => typeof this.rows[row][at] === "number")
      .map((row) => row[at].split(" ")[1] || ""));
    return units.size === 1 ? [...units][0] : "";
  }
}
