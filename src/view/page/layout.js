// Where everything lies on the canvas, in CSS pixels, and what lies at a point.

const GUTTER = 168, RULER = 30, GAP = 12;
const ROW_HEIGHT = {queue: 25, collectives: 15, copies: 15, thread: 20}, MEMORY_HEIGHT = 40, PADDING = 3;

// Gives lanes and bars their y; returns the height of the whole.
function layOut(trace) {
  let y = RULER;
  for (const group of trace.groups) {
    group.top = y;
    y += GAP / 2;
    for (const lane of group.lanes) {
      lane.top = y;
      if (lane.kind === "memory") y += MEMORY_HEIGHT;
      else for (const row of lane.rows) {
        for (const bar of row) bar.y = y, bar.height = ROW_HEIGHT[lane.kind] - PADDING;
        y += ROW_HEIGHT[lane.kind];
      }
      lane.bottom = y;
      y += lane.kind === "queue" ? 1 : 3;
    }
    group.bottom = y += GAP / 2;
  }
  return y + 4;
}

function firstIndex(items, holds) { // of a list where `holds` goes from false to true once
  let low = 0, high = items.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (holds(items[middle])) high = middle;
    else low = middle + 1;
  }
  return low;
}

class View { // the part of the time that is shown
  constructor(length) {
    this.length = length;
    this.width = 100; // of the plot, set when drawn
    this.fit();
  }
  fit() {
    this.start = -0.01 * this.length;
    this.span = 1.02 * this.length;
  }
  get end() { return this.start + this.span; }
  x(time) { return GUTTER + (time - this.start) / this.span * this.width; }
  time(x) { return this.start + (x - GUTTER) / this.width * this.span; }
  zoom(factor, x) {
    const fixed = this.time(x), span = Math.min(Math.max(this.span * factor, 0.02), 1.02 * this.length);
    this.start = fixed - (fixed - this.start) * span / this.span;
    this.span = span;
    this.pan(0);
  }
  pan(pixels) {
    const margin = 0.01 * this.length, start = this.start + pixels / this.width * this.span;
    this.start = Math.min(Math.max(start, -margin), Math.max(-margin, this.length + margin - this.span));
  }
  show(start, end) {
    const span = Math.max(end - start, 0.01);
    this.span = Math.min(span * 1.6, 1.02 * this.length);
    this.start = (start + end - this.span) / 2;
    this.pan(0);
  }
}

// The bar or the memory curve under a point: {lane, bar} or {lane, point}; null over nothing.
function hit(trace, view, x, y) {
  if (x < GUTTER) return null;
  for (const group of trace.groups)
    for (const lane of group.lanes) {
      if (y < lane.top || y >= lane.bottom) continue;
      if (lane.kind === "memory") return memoryAt(lane, view.time(x));
      const row = lane.rows[Math.floor((y - lane.top) / ROW_HEIGHT[lane.kind])], bar = row && nearest(row, view, x);
      return bar ? {lane, bar} : null;
    }
  return null;
}

function nearest(row, view, x) {
  const time = view.time(x), reach = view.span / view.width * 3, i = firstIndex(row, bar => bar.end >= time);
  let best = null, distance = reach;
  for (const bar of [row[i - 1], row[i]]) {
    const away = bar ? Math.max(bar.start - time, time - bar.end, 0) : Infinity;
    if (away < distance || (away === 0 && bar)) best = bar, distance = away;
  }
  return best;
}

function memoryAt(lane, time) {
  const i = firstIndex(lane.points.times, one => one > time) - 1;
  return {lane, point: {time, value: i < 0 ? 0 : lane.points.values[i]}};
}
