// From the trace's JSON to groups (the host, each device) of lanes of bars.
//   bar    {start, end, kind, name, args, key, group, other}   kind: kernel copy arrival plan prepare submit wait first
//   lane   {kind, name, rows: [[bar]], points}                 kind: thread queue collectives copies memory; bars of a row do not overlap
//   group  {name, device, lanes, busy, peak, kernels, sent, received}

function readTrace(json) {
  const trace = {program: json.otherData.program, version: json.otherData.version,
    isVirtual: json.otherData.clock === "virtual", dropped: json.otherData.dropped,
    length: json.otherData.length_us, groups: [], bars: [], copies: [], kernels: new Map(), first: []};
  const groups = new Map(), names = new Map(), memory = new Map();
  for (const event of json.traceEvents) {
    if (event.ph === "M" && event.name === "process_name")
      groups.set(event.pid, {name: event.args.name, device: event.pid > 0, pid: event.pid, bars: new Map(), lanes: [],
        busy: 0, peak: 0, kernels: 0, sent: 0, received: 0});
    else if (event.ph === "M" && event.name === "thread_name")
      names.set(event.pid + "/" + event.tid, event.args.name);
    else if (event.ph === "X")
      addBar(trace, groups.get(event.pid), event);
    else if (event.ph === "C")
      addPoint(memory, event);
  }
  trace.groups = [...groups.values()].sort((a, b) => a.pid - b.pid);
  for (const group of trace.groups) addLanes(group, names, memory.get(group.pid));
  pairCopies(trace);
  if (!(trace.length > 0)) trace.length = 1;
  return trace;
}

const LANES = {kernel: "queue", collective: "collectives"}; // of a device; else its copies

function addBar(trace, group, event) {
  const kind = event.cat === "host" ? event.name : event.cat, args = event.args;
  const name = kind === "first" ? event.name + " " + args.of : kind === "wait" ? "wait for " + args.of : event.name;
  const bar = {start: event.ts, end: event.ts + event.dur, kind, name, args, group, other: null, key: kind};
  if (kind === "kernel") addKernel(trace, group, bar);
  if (kind === "first") trace.first.push(bar);
  if (kind === "copy" && group.device) group.busy += event.dur;
  const lane = group.device ? LANES[kind] || "copies" : event.tid;
  if (!group.bars.has(lane)) group.bars.set(lane, []);
  group.bars.get(lane).push(bar);
  trace.bars.push(bar);
}

function addKernel(trace, group, bar) {
  const args = bar.args, key = [bar.name, args.label, args.operation, args.file, args.line].join("\n");
  let kernel = trace.kernels.get(key);
  if (!kernel) trace.kernels.set(key, kernel = {key, name: bar.name, args, calls: 0, total: 0, bytes: 0});
  kernel.calls++;
  kernel.total += bar.end - bar.start;
  kernel.bytes += args.read_bytes + args.written_bytes;
  group.kernels++;
  group.busy += bar.end - bar.start;
  bar.key = key;
}

function addPoint(memory, event) {
  if (!memory.has(event.pid)) memory.set(event.pid, {times: [], values: []});
  const points = memory.get(event.pid);
  points.times.push(event.ts);
  points.values.push(event.args["in use"]);
}

function addLanes(group, names, points) {
  const order = group.device ? ["queue", "collectives", "copies"] : [...group.bars.keys()].sort((a, b) => a - b);
  for (const id of order) {
    const bars = group.bars.get(id) || [];
    if (!bars.length && id !== "queue") continue;
    const kind = group.device ? id : "thread";
    group.lanes.push({kind, name: group.device ? id : names.get(group.pid + "/" + id) || "thread", group, rows: stack(bars)});
  }
  if (points) {
    group.peak = points.values.reduce((most, value) => Math.max(most, value), 0);
    group.lanes.push({kind: "memory", name: "memory", group, rows: [], points});
  }
}

// Each bar into the first row where there is room; what lies within another comes below it.
function stack(bars) {
  const rows = [];
  bars.sort((a, b) => a.start - b.start || b.end - a.end);
  for (const bar of bars) {
    let row = rows.find(taken => taken[taken.length - 1].end <= bar.start + 1e-6);
    if (!row) rows.push(row = []);
    row.push(bar);
  }
  return rows.length ? rows : [[]];
}

function pairCopies(trace) {
  const arrivals = new Map();
  for (const bar of trace.bars) if (bar.kind === "arrival") arrivals.set(bar.args.copy, bar);
  for (const bar of trace.bars) {
    const arrival = bar.kind === "copy" && arrivals.get(bar.args.copy);
    if (!arrival) continue;
    bar.other = arrival;
    arrival.other = bar;
    bar.group.sent += bar.args.bytes;
    arrival.group.received += bar.args.bytes;
    trace.copies.push(bar);
  }
  trace.copies.sort((a, b) => a.start - b.start);
}
