// The canvases. Bars narrower than a pixel are drawn once per pixel, so the cost is that of the screen, not of the trace.

const PALETTE = ["#3b6fd4", "#1f9e89", "#8a5fd3", "#d1495b", "#5f9a2e", "#cf62a4", "#3d9fd0", "#a97142"];
const FONT = '12px system-ui, "DejaVu Sans", sans-serif', BOLD = "600 13px system-ui, \"DejaVu Sans\", sans-serif";
const MOST_ARROWS = 160;

function themeColors() {
  const style = getComputedStyle(document.documentElement), colors = {};
  for (const name of ["panel", "text", "muted", "faint", "line", "grid", "stripe", "accent", "memory", "memory-fill", "copy", "plan", "prepare",
    "submit", "wait", "first", "other"])
    colors[name] = style.getPropertyValue("--" + name).trim();
  colors.arrival = colors.copy;
  return colors;
}

// The kernels that took longest have a color of their own, one per name.
function kernelColors(trace) {
  const totals = new Map(), colors = new Map();
  for (const kernel of trace.kernels.values()) totals.set(kernel.name, (totals.get(kernel.name) || 0) + kernel.total);
  const names = [...totals.keys()].sort((a, b) => totals.get(b) - totals.get(a));
  names.slice(0, PALETTE.length).forEach((name, i) => colors.set(name, PALETTE[i]));
  return colors;
}

function prepare(canvas, height) {
  const scale = window.devicePixelRatio || 1, width = canvas.clientWidth;
  canvas.style.height = height + "px";
  if (canvas.width !== Math.round(width * scale) || canvas.height !== Math.round(height * scale)) {
    canvas.width = Math.round(width * scale);
    canvas.height = Math.round(height * scale);
  }
  const context = canvas.getContext("2d");
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return [context, width];
}

class Painter {
  constructor(trace, view, height) {
    Object.assign(this, {trace, view, height, kernels: kernelColors(trace), lit: null, hover: null});
    this.timeline = document.getElementById("timeline");
    this.overview = document.getElementById("overview");
    this.recolor();
  }

  recolor() { this.colors = themeColors(); }

  colorOf(bar) {
    if (bar.kind === "kernel") return this.kernels.get(bar.name) || this.colors.other;
    return this.colors[bar.kind] || this.colors.other;
  }

  isLit(bar) {
    if (!this.lit) return true;
    if (this.lit.key) return bar.key === this.lit.key;
    if (this.lit.name) return bar.kind === "kernel" && bar.name === this.lit.name;
    if (this.lit.others) return bar.kind === "kernel" && !this.kernels.has(bar.name);
    return bar.kind === this.lit.kind || (this.lit.kind === "copy" && bar.kind === "arrival");
  }

  draw() {
    const [context, width] = prepare(this.timeline, this.height);
    this.context = context;
    this.right = width - 12;
    this.view.width = Math.max(this.right - GUTTER, 50);
    context.textBaseline = "middle";
    this.drawGround(width);
    context.save();
    context.beginPath();
    context.rect(GUTTER, RULER, this.view.width, this.height - RULER);
    context.clip();
    for (const group of this.trace.groups)
      for (const lane of group.lanes)
        if (lane.kind === "memory") this.drawMemory(lane);
        else for (const row of lane.rows) this.drawRow(row);
    this.drawArrows();
    this.drawHover();
    context.restore();
    this.drawOverview();
  }

  // --- the ground: stripes, names, the ruler

  drawGround(width) {
    const {context, colors, view} = this;
    this.trace.groups.forEach((group, i) => {
      context.fillStyle = i % 2 ? colors.stripe : colors.panel;
      context.fillRect(0, group.top, width, group.bottom - group.top);
      context.fillStyle = colors.line;
      context.fillRect(0, group.top, width, 1);
    });
    const step = tickStep(view.span, Math.max(view.width / 110, 2));
    context.font = FONT;
    context.textAlign = "center";
    for (let i = Math.ceil(view.start / step); i * step <= view.end; i++) {
      const x = Math.round(view.x(i * step));
      context.fillStyle = colors.grid;
      context.fillRect(x, RULER, 1, this.height);
      context.fillStyle = colors.muted;
      context.fillRect(x, RULER - 5, 1, 5);
      context.fillText(tickText(i * step, step, view.end), Math.min(Math.max(x, GUTTER + 18), this.right - 18), RULER / 2 - 1);
    }
    for (const group of this.trace.groups) this.drawNames(group);
  }

  drawNames(group) {
    const {context, colors} = this;
    const first = group.lanes[0];
    context.font = BOLD;
    context.textAlign = "left";
    context.fillStyle = colors.text;
    if (first) context.fillText(group.name, 14, first.top + 12);
    context.font = FONT;
    if (group.device && first) {
      context.fillStyle = colors.muted;
      context.fillText(shareText(group.busy, this.trace.length) + " busy", 14, first.top + 30);
    }
    context.textAlign = "right";
    context.fillStyle = colors.muted;
    for (const lane of group.lanes) {
      if (lane.kind !== "memory") {
        context.fillText(lane.name, GUTTER - 10, lane.top + (ROW_HEIGHT[lane.kind] - PADDING) / 2 + 0.5, GUTTER - 70);
        continue;
      }
      context.fillText("memory", GUTTER - 10, lane.top + 11);
      context.fillStyle = colors.faint;
      context.fillText(bytesText(group.peak), GUTTER - 10, lane.top + 27);
      context.fillStyle = colors.muted;
    }
  }

  // --- bars

  drawRow(row) {
    const {view} = this, pixel = view.span / view.width;
    let i = firstIndex(row, bar => bar.end > view.start);
    while (i < row.length && row[i].start < view.end) {
      const bar = row[i], x = view.x(bar.start), width = (bar.end - bar.start) / pixel;
      if (width >= 1.5) {
        this.drawBar(bar, x, width);
        i++;
        continue;
      }
      const next = view.time(Math.floor(x) + 1);
      let shown = bar;
      for (i++; i < row.length && row[i].start < next && row[i].end - row[i].start < 1.5 * pixel; i++)
        if (this.lit && this.isLit(row[i])) shown = row[i];
      this.context.globalAlpha = this.isLit(shown) ? 1 : 0.15;
      this.context.fillStyle = this.colorOf(shown);
      this.context.fillRect(Math.floor(x), shown.y, 1, shown.height);
    }
    this.context.globalAlpha = 1;
  }

  drawBar(bar, x, width) {
    const {context} = this, left = Math.max(x, GUTTER - 4), right = Math.min(x + width, this.right + 4);
    const shown = Math.max(right - left - (width > 5 ? 1 : 0), 1), lit = this.isLit(bar);
    context.globalAlpha = lit ? 1 : 0.15;
    context.fillStyle = this.colorOf(bar);
    if (shown > 6) {
      context.beginPath();
      context.roundRect(left, bar.y, shown, bar.height, 3);
      context.fill();
    } else context.fillRect(left, bar.y, shown, bar.height);
    const from = Math.max(left, GUTTER);
    if (right - from > 30 && lit) this.drawLabel(bar, from + 5, right - from - 9);
  }

  drawLabel(bar, x, room) {
    const {context, colors} = this, copied = bar.kind === "copy" || bar.kind === "arrival";
    if (bar.height < 12) return;
    let text = copied ? (bar.kind === "copy" ? "→ " + bar.args.to : "← " + bar.args.from) + "  " + bytesText(bar.args.bytes) : bar.name;
    const more = bar.kind === "kernel" && bar.args.file ? text + "  " + bar.args.file + ":" + bar.args.line : text;
    context.font = bar.height < 15 ? "11px " + FONT.slice(5) : FONT;
    if (context.measureText(more).width <= room) text = more;
    else if (context.measureText(text).width > room) {
      const letters = Math.floor(text.length * (room - 8) / context.measureText(text).width);
      if (letters < 3) return;
      text = text.slice(0, letters) + "…";
    }
    context.fillStyle = bar.kind === "wait" ? colors.text : "#fff";
    context.textAlign = "left";
    context.fillText(text, x, bar.y + bar.height / 2 + 0.5);
  }

  // --- memory, copies, what is under the pointer

  drawMemory(lane) {
    const {context, view, colors} = this, {times, values} = lane.points, most = lane.group.peak || 1;
    const floor = lane.bottom - 3, scale = (MEMORY_HEIGHT - 9) / most;
    const first = Math.max(firstIndex(times, time => time > view.start) - 1, 0);
    const y = value => floor - value * scale;
    context.beginPath();
    let at = -Infinity, high = 0, level = times[first] > view.start ? 0 : values[first];
    context.moveTo(GUTTER, y(level));
    for (let i = first; i < times.length && times[i] < view.end; i++) {
      const x = Math.max(view.x(times[i]), GUTTER), column = Math.floor(x);
      if (column !== at) {
        context.lineTo(x, y(level));
        at = column;
        high = level;
      }
      if (values[i] > high) context.lineTo(x, y(high = values[i]));
      level = values[i];
      if (i + 1 >= times.length || Math.floor(view.x(times[i + 1])) !== column) context.lineTo(x, y(level));
    }
    const end = Math.min(view.x(this.trace.length), this.right);
    context.lineTo(end, y(level));
    context.strokeStyle = colors.memory;
    context.lineWidth = 1.3;
    context.lineJoin = "round";
    context.stroke();
    context.lineTo(end, floor);
    context.lineTo(GUTTER, floor);
    context.fillStyle = colors["memory-fill"];
    context.fill();
  }

  // From the bar that sends to the bar that receives; spread evenly where all would only blur the picture.
  drawArrows() {
    const {view, trace} = this, pixel = view.span / view.width, wide = [], narrow = [];
    for (const bar of trace.copies) {
      if (bar.start >= view.end) break;
      if (bar.end <= view.start || !this.isLit(bar)) continue;
      (bar.end - bar.start > 8 * pixel ? wide : narrow).push(bar);
    }
    const step = Math.max(Math.ceil(narrow.length / MOST_ARROWS), 1), alpha = Math.max(0.2, 0.7 - narrow.length / step / 300);
    this.arrows = 0;
    for (let i = 0; i < narrow.length; i += step) this.drawArrow(narrow[i], alpha, 1);
    for (const bar of wide) this.drawArrow(bar, 0.75, 1.4);
  }

  drawArrow(bar, alpha, thickness) {
    const {context, view} = this, to = bar.other, down = to.y > bar.y ? 1 : -1;
    const x = view.x((bar.start + bar.end) / 2), bend = Math.min(26, 8 + Math.abs(to.y - bar.y) / 12);
    const y0 = down > 0 ? bar.y + bar.height : bar.y, y1 = down > 0 ? to.y : to.y + to.height;
    context.globalAlpha = alpha;
    context.strokeStyle = context.fillStyle = this.colors.copy;
    context.lineWidth = thickness;
    context.beginPath();
    context.moveTo(x, y0);
    context.bezierCurveTo(x + bend, y0 + down * 6, x + bend, y1 - down * 10, x, y1);
    context.stroke();
    context.beginPath();
    context.moveTo(x, y1);
    context.lineTo(x - 1.5, y1 - down * 7);
    context.lineTo(x + 5, y1 - down * 5);
    context.fill();
    context.globalAlpha = 1;
    this.arrows++;
  }

  drawHover() {
    const {context, colors, view} = this, found = this.hover;
    if (!found) return;
    context.strokeStyle = colors.text;
    context.lineWidth = 1.5;
    if (found.point) {
      const lane = found.lane, x = view.x(found.point.time);
      const y = lane.bottom - 3 - found.point.value * (MEMORY_HEIGHT - 9) / (lane.group.peak || 1);
      context.fillStyle = colors.memory;
      context.beginPath();
      context.arc(x, y, 4, 0, 2 * Math.PI);
      context.fill();
      context.stroke();
      return;
    }
    for (const bar of [found.bar, found.bar.other]) {
      if (!bar) continue;
      const x = view.x(bar.start);
      context.strokeRect(x - 0.5, bar.y - 0.5, Math.max(view.x(bar.end) - x, 2), bar.height + 1);
    }
    if (found.bar.other) this.drawArrow(found.bar.kind === "copy" ? found.bar : found.bar.other, 1, 2);
  }

  // --- the strip above: all of the time, how busy each device was, and the part that is shown

  drawOverview() {
    const devices = this.trace.groups.filter(group => group.device), line = devices.length > 4 ? 5 : 8;
    const [context, width] = prepare(this.overview, 16 + line * Math.max(devices.length, 1));
    const plot = this.right - GUTTER, x = time => GUTTER + time / this.trace.length * plot;
    if (this.overviewWidth !== plot) {
      this.overviewWidth = plot;
      this.densities = devices.map(group => density(group, this.trace.length, Math.max(Math.floor(plot), 1)));
    }
    context.font = FONT;
    context.textBaseline = "middle";
    context.textAlign = "left";
    context.fillStyle = this.colors.muted;
    context.fillText("all of " + timeText(this.trace.length), 14, 8 + line * devices.length / 2);
    context.fillStyle = this.colors.accent;
    this.densities.forEach((columns, i) => columns.forEach((busy, column) => {
      if (busy <= 0) return;
      context.globalAlpha = 0.25 + 0.75 * Math.min(busy, 1);
      context.fillRect(GUTTER + column, 8 + i * line, 1, line - 2);
    }));
    context.globalAlpha = 1;
    const left = Math.max(x(this.view.start), GUTTER), right = Math.min(x(this.view.end), this.right);
    context.globalAlpha = 0.6;
    context.fillStyle = this.colors.panel;
    context.fillRect(GUTTER, 0, left - GUTTER, 100);
    context.fillRect(right, 0, this.right - right, 100);
    context.globalAlpha = 1;
    context.strokeStyle = this.colors.accent;
    context.lineWidth = 1.5;
    context.strokeRect(left, 2, Math.max(right - left, 3), 12 + line * Math.max(devices.length, 1));
  }
}

// The share of each column's time that the device was busy for.
function density(group, length, columns) {
  const busy = new Float64Array(columns), width = length / columns;
  for (const lane of group.lanes)
    for (const row of lane.rows)
      for (const bar of row) {
        if (bar.kind === "arrival") continue;
        const last = Math.min(Math.floor(bar.end / width), columns - 1);
        for (let c = Math.max(Math.floor(bar.start / width), 0); c <= last; c++)
          busy[c] += Math.max(Math.min(bar.end, (c + 1) * width) - Math.max(bar.start, c * width), width / 1e3) / width;
      }
  return [...busy];
}
