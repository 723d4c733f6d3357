// Finds the pieces of a lane that a frame draws. An event that is a pixel wide or more is a piece.
// Narrower events are merged by pixel column: the piece is a stack of the kinds, each as high as
// its share of the time. A column takes one search and a few look-ups in prefix sums, so that the
// cost grows with the number of columns and not of events.
"use strict";

const kLevels = 8;  // levels of a merged column's height
const kShades = 4;  // shades of a merged column, by how much of it is busy

// Returns the stack of a column as [[kind, from, to], ...]. With 3/4 forward and 1/4 backward it is
// [[forward, 0, 6], [backward, 6, 8]].
function levelsOf(shares, busy) {
  const levels = [];
  let sum = 0, from = 0;
  for (const [kind, share] of shares) {
    sum += share;
    const to = Math.round(kLevels * sum / busy);
    if (to > from) levels.push([kind, from, to]);
    from = to;
  }
  return levels;
}

// Returns the first index from `low` on whose value is `limit` or more. Searches by galloping
// (steps that double), which is fast if the index is near.
function firstFrom(values, limit, low, count) {
  let step = 1, high = low;
  while (high < count && values[high] < limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return d3.bisectLeft(values, limit, low, Math.min(high, count));
}

// Calls visit({begin, end, levels, shade, matched, event}) for each piece between the times t0 and
// t1, from left to right. begin and end are pixels from 0 to `width`. event is -1 for a merged
// piece, which is matched if any of its events is. `hidden`: kinds that are not shown. A pixel
// column has at most two pieces: one that is merged, and one that is wide and begins in it.
function visitPieces(lane, t0, t1, width, hidden, visit) {
  const scale = width / (t1 - t0);
  const kinds = [...lane.sums].filter(([kind]) => !hidden.has(kind))
    .sort(([a], [b]) => d3.ascending(a, b));
  const matched = (first, end) => lane.matches === null || lane.matches[end] > lane.matches[first];
  const isWide = (i) => (lane.end[i] - lane.start[i]) * scale >= 1;
  const widePiece = (i, begin) => ({begin, end: Math.min(width, (lane.end[i] - t0) * scale),
    levels: [[lane.colour[i], 0, kLevels]], shade: kShades, matched: matched(i, i + 1), event: i});
  // Returns the piece of the events from `first` to before `end`; null: none of them is shown.
  const mergedPiece = (first, end, pixel) => {
    const shares = kinds.map(([kind, sums]) => [kind, (sums[end] - sums[first]) * scale]);
    const busy = d3.sum(shares, ([, share]) => share);
    if (busy <= 0) return null;
    const levels = levelsOf(shares, busy);
    const shade = Math.max(1, Math.min(kShades, Math.ceil(busy * kShades)));
    return {begin: pixel, end: pixel + 1, levels, shade, key: `${levels.join(";")};${shade}`,
      matched: matched(first, end), event: -1};
  };
  let open = null;  // the merged piece that an equal one in the next column prolongs
  const close = () => { if (open) visit(open); open = null; };
  const add = (piece) => {
    const prolongs = open && open.end === piece.begin && open.key === piece.key &&
      open.matched === piece.matched;
    if (prolongs) { open.end = piece.end; return; }
    close();
    open = piece;
  };
  let i = lane.after(t0);
  while (i < lane.count && lane.start[i] < t1) {
    const begin = Math.max(0, (lane.start[i] - t0) * scale);
    if (isWide(i)) {
      close();
      if (!hidden.has(lane.colour[i])) visit(widePiece(i, begin));
      ++i;
      continue;
    }
    // Takes all events that start in this column. If the last is wide, the next round draws it.
    const pixel = Math.floor(begin);
    let next = firstFrom(lane.start, t0 + (pixel + 1) / scale, i + 1, lane.count);
    if (next > i + 1 && isWide(next - 1)) --next;
    const piece = mergedPiece(i, next, pixel);
    if (piece) add(piece);
    i = next;
  }
  close();
}
