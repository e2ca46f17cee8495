// Reads the trace and puts the page together. With #selftest it writes what it shows into the page, for tests.

const failures = [];
addEventListener("error", event => failures.push(event.message + " at line " + event.lineno));

function drawFacts(trace) {
  document.title = trace.program + " – berth trace";
  document.getElementById("program").textContent = trace.program;
  const devices = trace.groups.filter(group => group.device), kernels = devices.reduce((sum, group) => sum + group.kernels, 0);
  const moved = trace.copies.reduce((sum, bar) => sum + bar.args.bytes, 0), facts = document.getElementById("facts");
  for (const [name, value] of [["length", timeText(trace.length)], ["devices", devices.length], ["kernels", countText(kernels)],
    ["copies", countText(trace.copies.length)], ["moved", bytesText(moved)]]) {
    const fact = add(facts, "div");
    add(fact, "dt", name);
    add(fact, "dd", value);
  }
  const notices = [], notice = document.getElementById("notice");
  if (trace.isVirtual) notices.push("Times are virtual: a model of the simulated devices makes them.");
  if (trace.dropped) notices.push(countText(trace.dropped) + " later events found no room in memory and are missing.");
  notice.hidden = !notices.length;
  notice.textContent = notices.join(" ");
}

// Points at the middle of up to 40 bars, spread over the trace, each shown large; notes what the tooltip says.
function selfTest(trace, view, painter, control) {
  const box = painter.timeline.getBoundingClientRect(), hovers = [], step = Math.max(Math.floor(trace.bars.length / 40), 1);
  painter.draw();
  const arrows = painter.arrows;
  for (let i = 0; i < trace.bars.length; i += step) {
    const bar = trace.bars[i];
    view.show(bar.start, bar.end);
    painter.draw();
    const found = control.pointAt(box.left + view.x((bar.start + bar.end) / 2), box.top + bar.y + bar.height / 2);
    hovers.push({start: bar.start, end: bar.end, kind: bar.kind, found: Boolean(found) && found.bar === bar,
      text: control.tooltip.textContent});
  }
  const lanes = trace.groups.flatMap(group => group.lanes);
  const result = {
    groups: trace.groups.map(group => group.name),
    lanes: lanes.map(lane => lane.group.name + "/" + lane.name),
    bars: lanes.reduce((sum, lane) => sum + lane.rows.reduce((count, row) => count + row.length, 0), 0),
    copies: trace.copies.length,
    arrows,
    memory_points: lanes.reduce((sum, lane) => sum + (lane.points ? lane.points.times.length : 0), 0),
    kernel_rows: trace.kernels.size,
    first_calls: trace.first.length,
    hovers,
    errors: failures,
  };
  add(document.body, "pre", JSON.stringify(result)).id = "selftest";
}

function main() {
  if (matchMedia("(prefers-color-scheme: dark)").matches) document.documentElement.dataset.theme = "dark";
  if (location.hash.includes("dark")) document.documentElement.dataset.theme = "dark";
  const trace = readTrace(JSON.parse(document.getElementById("trace").textContent));
  const view = new View(trace.length), painter = new Painter(trace, view, layOut(trace));
  const control = new Control(trace, view, painter);
  const legend = () => drawLegend(trace, painter, control);
  drawFacts(trace);
  legend();
  for (const name of ["light", "recolor"]) document.addEventListener(name, legend);
  drawKernels(trace, painter, control);
  drawDevices(trace);
  drawCopies(trace);
  drawHost(trace);
  drawFirst(trace, control);
  painter.draw();
  if (location.hash === "#selftest") selfTest(trace, view, painter, control);
}

main();
