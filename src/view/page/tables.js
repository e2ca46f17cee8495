// The legend and the tables below the timeline.

const ROWS_SHOWN = 15;

// columns: {name, left, text(row), value(row), cell(element, row)}; sorted by column `by`, downwards.
function drawTable(place, columns, rows, by, options = {}) {
  let sorted = by, down = true, all = false;
  const draw = () => {
    place.replaceChildren();
    if (!rows.length) return void add(place, "p", options.none || "none", "none");
    const table = add(place, "table"), head = add(add(table, "thead"), "tr");
    columns.forEach((column, i) => {
      const cell = add(head, "th", undefined, column.left ? "left" : "");
      cell.scope = "col";
      if (i === sorted) cell.setAttribute("aria-sort", down ? "descending" : "ascending");
      add(cell, "button", column.name).addEventListener("click", () => {
        down = i === sorted ? !down : !column.left;
        sorted = i;
        draw();
      });
    });
    const key = columns[sorted].value || columns[sorted].text, order = down ? -1 : 1;
    const ordered = [...rows].sort((a, b) => (key(a) < key(b) ? -order : key(a) > key(b) ? order : 0));
    const body = add(table, "tbody");
    for (const row of all ? ordered : ordered.slice(0, ROWS_SHOWN)) drawRow(body, columns, row, options);
    if (!all && rows.length > ROWS_SHOWN)
      add(place, "button", "Show all " + rows.length, "more").addEventListener("click", () => {
        all = true;
        draw();
      });
  };
  draw();
  return draw;
}

function drawRow(body, columns, row, options) {
  const line = add(body, "tr");
  for (const column of columns) {
    const cell = add(line, "td", column.cell ? undefined : column.text(row), column.left ? "left" : "");
    if (column.cell) column.cell(cell, row);
  }
  if (!options.click) return;
  line.classList.add("link");
  if (options.lit(row)) line.classList.add("lit");
  line.addEventListener("click", () => options.click(row));
}

function meterCell(whole) {
  return (cell, row) => {
    const part = whole ? row.total / whole : 0;
    add(add(cell, "span", undefined, "meter"), "i").style.width = 100 * Math.min(part, 1) + "%";
    add(cell, "span", shareText(row.total, whole), "share");
  };
}

function sumUp(bars, keyOf) {
  const rows = new Map();
  for (const bar of bars) {
    const key = keyOf(bar);
    let row = rows.get(key);
    if (!row) rows.set(key, row = {name: key, bar, calls: 0, total: 0, bytes: 0});
    row.calls++;
    row.total += bar.end - bar.start;
    row.bytes += bar.args.bytes || 0;
  }
  return [...rows.values()];
}

const NUMBERS = [
  {name: "calls", text: row => countText(row.calls), value: row => row.calls},
  {name: "total", text: row => timeText(row.total), value: row => row.total},
  {name: "mean", text: row => timeText(row.total / row.calls), value: row => row.total / row.calls},
];
const SPEED = {name: "speed", text: row => speedText(row.bytes, row.total), value: row => row.bytes / (row.total || Infinity)};

function drawKernels(trace, painter, control) {
  const rows = [...trace.kernels.values()], whole = rows.reduce((sum, row) => sum + row.total, 0);
  const named = (cell, row) => {
    add(cell, "span", undefined, "swatch").style.background = painter.kernels.get(row.name) || painter.colors.other;
    cell.append(row.name.replaceAll("+", "+\u200b")); // where a long name may be broken
  };
  const isLit = row => painter.lit !== null && painter.lit.key === row.key;
  const draw = drawTable(document.getElementById("kernels"), [
    {name: "kernel", left: true, text: row => row.name, cell: named},
    {name: "asked for by", left: true, text: row => placeText(row.args)},
    ...NUMBERS,
    {name: "share of kernel time", value: row => row.total, cell: meterCell(whole)},
    SPEED,
  ], rows, 3, {click: row => control.light(isLit(row) ? null : {key: row.key}), lit: isLit, none: "no kernel ran"});
  document.addEventListener("light", draw);
  document.addEventListener("recolor", draw);
}

function drawDevices(trace) {
  drawTable(document.getElementById("devices"), [
    {name: "device", left: true, text: group => group.name},
    {name: "kernels", text: group => countText(group.kernels), value: group => group.kernels},
    {name: "busy", value: group => group.busy, cell: (cell, group) => meterCell(trace.length)(cell, {total: group.busy})},
    {name: "most memory", text: group => bytesText(group.peak), value: group => group.peak},
    {name: "received", text: group => bytesText(group.received), value: group => group.received},
    {name: "sent", text: group => bytesText(group.sent), value: group => group.sent},
  ], trace.groups.filter(group => group.device), 2, {none: "no device was used"});
}

function drawCopies(trace) {
  drawTable(document.getElementById("copies"), [
    {name: "way", left: true, text: row => row.name},
    {name: "bytes", text: row => bytesText(row.bytes), value: row => row.bytes},
    ...NUMBERS,
    SPEED,
  ], sumUp(trace.copies, bar => bar.args.from + " → " + bar.args.to), 1, {none: "nothing was copied"});
}

// Waiting, less what the waiting thread ran itself meanwhile.
function hostRows(trace) {
  const words = {plan: "planning", prepare: "preparing", submit: "submitting", wait: "waiting"};
  const rows = sumUp(trace.bars.filter(bar => bar.kind in words), bar => words[bar.kind]);
  const waits = new Map(), own = trace.bars.filter(bar => bar.kind === "kernel" || (bar.kind === "copy" && bar.group.device));
  for (const bar of trace.bars)
    if (bar.kind === "wait") waits.set(bar.args.thread, [...(waits.get(bar.args.thread) || []), bar]);
  let worked = 0;
  for (const bar of own) {
    const list = waits.get(bar.args.thread), i = list ? firstIndex(list, wait => wait.end >= bar.end) : 0;
    if (list && i < list.length && list[i].start <= bar.start) worked += bar.end - bar.start;
  }
  for (const row of rows) if (row.name === "waiting") row.total = Math.max(row.total - worked, 0);
  return rows;
}

function drawHost(trace) {
  drawTable(document.getElementById("host"), [{name: "what", left: true, text: row => row.name}, ...NUMBERS], hostRows(trace), 2,
    {none: "nothing was planned"});
}

function drawFirst(trace, control) {
  drawTable(document.getElementById("first"), [
    {name: "what", left: true, text: bar => bar.name},
    {name: "for", left: true, text: bar => placeText(bar.args)},
    {name: "at", text: bar => timeText(bar.start), value: bar => bar.start},
    {name: "took", text: bar => timeText(bar.end - bar.start), value: bar => bar.end - bar.start},
  ], trace.first, 3, {none: "nothing was opened, compiled or loaded", lit: () => false, click: bar => {
    control.view.show(bar.start, bar.end);
    control.redraw();
    control.painter.timeline.scrollIntoView({block: "nearest"});
  }});
}

function drawLegend(trace, painter, control) {
  const kinds = new Set(trace.bars.map(bar => bar.kind));
  const entries = [...painter.kernels].map(([name, color]) => [name, color, {name}]);
  if ([...trace.kernels.values()].some(kernel => !painter.kernels.has(kernel.name)))
    entries.push(["other kernels", painter.colors.other, {others: true}]);
  for (const [kind, name] of [["copy", "copy"], ["plan", "planning"], ["prepare", "preparing"], ["submit", "submitting"], ["wait", "waiting"],
    ["first", "first call"]])
    if (kinds.has(kind)) entries.push([name, painter.colors[kind], {kind}]);
  const place = document.getElementById("legend");
  place.replaceChildren();
  for (const [name, color, lit] of entries) {
    const button = add(place, "button"), same = JSON.stringify(lit) === JSON.stringify(painter.lit);
    add(button, "span", undefined, "swatch").style.background = color;
    button.append(name);
    button.setAttribute("aria-pressed", same);
    button.addEventListener("click", () => control.light(same ? null : lit));
  }
}
