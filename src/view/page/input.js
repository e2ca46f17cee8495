// The pointer, the wheel, the keys; what the tooltip says.

function add(parent, tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function factsOf(found) {
  const {bar, point, lane} = found;
  if (point) return [["at", timeText(Math.max(point.time, 0))], ["in use", bytesText(point.value)], ["most", bytesText(lane.group.peak)]];
  const args = bar.args, took = bar.end - bar.start, facts = [["took", timeText(took)], ["began at", timeText(bar.start)]];
  if (bar.kind === "kernel") {
    facts.push(["elements", countText(args.elements)], ["read", bytesText(args.read_bytes)], ["written", bytesText(args.written_bytes)],
      ["read + written", speedText(args.read_bytes + args.written_bytes, took)]);
  } else if (bar.other) facts.push(["bytes", bytesText(args.bytes)], ["speed", speedText(args.bytes, took)]);
  return facts;
}

function fillTooltip(tooltip, found) {
  const {bar, point, lane} = found;
  tooltip.replaceChildren();
  add(tooltip, "b", point ? "Memory of " + lane.group.name : bar.other ? "Copy " + bar.args.from + " → " + bar.args.to : bar.name);
  const place = point ? "" : placeText(bar.args);
  if (place) add(tooltip, "div", place, "place");
  const list = add(tooltip, "dl");
  for (const [name, value] of factsOf(found)) {
    add(list, "dt", name);
    add(list, "dd", value);
  }
}

function placeTooltip(tooltip, x, y) {
  tooltip.hidden = false;
  const {width, height} = tooltip.getBoundingClientRect();
  tooltip.style.left = Math.max(8, x + 16 + width > innerWidth - 8 ? x - 16 - width : x + 16) + "px";
  tooltip.style.top = Math.max(8, Math.min(y + 16, innerHeight - height - 8)) + "px";
}

class Control {
  constructor(trace, view, painter) {
    Object.assign(this, {trace, view, painter, drag: null, waiting: false});
    this.tooltip = document.getElementById("tooltip");
    this.watchTimeline(painter.timeline);
    this.watchOverview(painter.overview);
    this.watchButtons();
    new ResizeObserver(() => this.redraw()).observe(painter.timeline.parentElement);
  }

  redraw() {
    if (this.waiting) return;
    this.waiting = true;
    requestAnimationFrame(() => {
      this.waiting = false;
      this.painter.draw();
    });
  }

  light(lit) {
    this.painter.lit = lit;
    document.dispatchEvent(new CustomEvent("light", {detail: lit}));
    this.redraw();
  }

  pointAt(clientX, clientY) {
    const box = this.painter.timeline.getBoundingClientRect();
    const found = hit(this.trace, this.view, clientX - box.left, clientY - box.top);
    this.painter.hover = found;
    if (found) {
      fillTooltip(this.tooltip, found);
      placeTooltip(this.tooltip, clientX, clientY);
    } else this.tooltip.hidden = true;
    this.redraw();
    return found;
  }

  middle() { return GUTTER + this.view.width / 2; }

  zoom(factor, x = this.middle()) {
    this.view.zoom(factor, x);
    this.redraw();
  }

  watchTimeline(canvas) {
    canvas.addEventListener("wheel", event => {
      if (event.offsetX < GUTTER) return; // over the names the page scrolls
      event.preventDefault();
      const unit = event.deltaMode === 1 ? 20 : 1, sideways = event.shiftKey ? event.deltaY || event.deltaX : event.deltaX;
      if (event.shiftKey || Math.abs(event.deltaX) > Math.abs(event.deltaY)) this.view.pan(sideways * unit);
      else this.view.zoom(Math.exp(event.deltaY * unit * 0.0022), event.offsetX);
      this.pointAt(event.clientX, event.clientY);
    }, {passive: false});
    canvas.addEventListener("pointerdown", event => {
      if (event.button !== 0) return;
      this.drag = {x: event.clientX};
      canvas.setPointerCapture(event.pointerId);
      canvas.classList.add("dragging");
    });
    canvas.addEventListener("pointermove", event => {
      if (!this.drag) return void this.pointAt(event.clientX, event.clientY);
      this.view.pan(this.drag.x - event.clientX);
      this.drag.x = event.clientX;
      this.tooltip.hidden = true;
      this.redraw();
    });
    for (const name of ["pointerup", "pointercancel"])
      canvas.addEventListener(name, () => {
        this.drag = null;
        canvas.classList.remove("dragging");
      });
    canvas.addEventListener("pointerleave", () => {
      this.painter.hover = null;
      this.tooltip.hidden = true;
      this.redraw();
    });
    canvas.addEventListener("dblclick", event => {
      const found = this.pointAt(event.clientX, event.clientY);
      if (found && found.bar) this.view.show(found.bar.start, found.bar.end);
      this.redraw();
    });
    canvas.addEventListener("keydown", event => this.key(event));
  }

  key(event) {
    const steps = {ArrowLeft: -80, ArrowRight: 80, a: -80, d: 80}, factors = {"+": 0.7, "=": 0.7, "-": 1 / 0.7, w: 0.7, s: 1 / 0.7,
      ArrowUp: 0.7, ArrowDown: 1 / 0.7};
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key in steps) this.view.pan(steps[event.key]);
    else if (event.key in factors) this.view.zoom(factors[event.key], this.middle());
    else if (event.key === "0" || event.key === "Home") this.view.fit();
    else if (event.key === "Escape") this.light(null);
    else return;
    event.preventDefault();
    this.redraw();
  }

  watchOverview(canvas) {
    const go = event => {
      const time = (event.offsetX - GUTTER) / this.view.width * this.trace.length;
      this.view.start = time - this.view.span / 2;
      this.view.pan(0);
      this.redraw();
    };
    canvas.addEventListener("pointerdown", event => {
      canvas.setPointerCapture(event.pointerId);
      go(event);
    });
    canvas.addEventListener("pointermove", event => event.buttons && go(event));
  }

  watchButtons() {
    const on = (id, act) => document.getElementById(id).addEventListener("click", act);
    on("zoom-in", () => this.zoom(0.6));
    on("zoom-out", () => this.zoom(1 / 0.6));
    on("fit", () => {
      this.view.fit();
      this.redraw();
    });
    on("theme", () => {
      const root = document.documentElement;
      root.dataset.theme = root.dataset.theme === "dark" ? "light" : "dark";
      this.painter.recolor();
      document.dispatchEvent(new Event("recolor"));
      this.redraw();
    });
  }
}
