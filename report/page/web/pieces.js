// The pieces of a lane that a frame draws: events wider than a pixel one by one, the others merged
// by pixel columns, each a stack of the kinds' shares. The cost grows with columns, not with
// events, as each column takes two searches.
"use strict";

const kLevels = 8;  // levels of a merged column's height
const kShades = 4;  // shades of a merged column, by how much of it is busy

// Returns the kinds' parts of a column's busy time as levels, one on the other: [[kind, from, to],
// ...].
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

// Returns the first place from `low` on whose value is `limit` or more, by galloping search, which
// is fast if the place is near.
function firstFrom(values, limit, low, count) {
  let step = 1, high = low;
  while (high < count && values[high] < limit) {
    low = high + 1;
    high += step;
    step *= 2;
  }
  return d3.bisectLeft(values, limit, low, Math.min(high, count));
}

// Calls visit({begin, end, levels, shade, matched, event}) from left to right. begin and end are in
// pixels of `width`; event is -1 for a merged piece. `hidden`: kinds that are not shown. A pixel
// column has at most two pieces: one that is merged, and one that is wide and begins in it.
function visitPieces(lane, t0, t1, width, hidden, visit) {
  const scale = width / (t1 - t0);
  const kinds = [...lane.sums].filter(([kind]) => !hidden.has(kind))
    .sort(([a], [b]) => d3.ascending(a, b));
  const matched = (first, end) => lane.matches === null || lane.matches[end] > lane.matches[first];
  let open = null;  // the merged piece that the next column may prolong
  const close = () => { if (open) visit(open); open = null; };
  let i = lane.after(t0);
  while (i < lane.count && lane.start[i] < t1) {
    const begin = Math.max(0, (lane.start[i] - t0) * scale);
    if ((lane.end[i] - lane.start[i]) * scale >= 1) {
      close();
      if (!hidden.has(lane.colour[i]))
        visit({begin, end: Math.min(width, (lane.end[i] - t0) * scale),
          levels: [[lane.colour[i], 0, kLevels]], shade: kShades, matched: matched(i, i + 1),
          event: i});
      ++i;
      continue;
    }
    // All that start in this column. The last may be wide, and is then left for the next round.
    const pixel = Math.floor(begin);
    let next = firstFrom(lane.start, t0 + (pixel + 1) / scale, i + 1, lane.count);
    if (next > i + 1 && (lane.end[next - 1] - lane.start[next - 1]) * scale >= 1) --next;
    const shares = kinds.map(([kind, sums]) => [kind, (sums[next] - sums[i]) * scale]);
    const busy = d3.sum(shares, ([, share]) => share);
    if (busy > 0) {
      const levels = levelsOf(shares, busy);
      const shade = Math.max(1, Math.min(kShades, Math.ceil(busy * kShades)));
      const match = matched(i, next);
      const key = `${levels.join(";")};${shade}`;
      if (open && open.end === pixel && open.key === key && open.matched === match) {
        open.end = pixel + 1;
      } else {
        close();
        open = {begin: pixel, end: pixel + 1, levels, shade, key, matched: match, event: -1};
      }
    }
    i = next;
  }
  close();
}
