// Numbers for people. Times are microseconds, sizes bytes.

function digits(value) {
  return value >= 99.95 ? value.toFixed(0) : value >= 9.995 ? value.toFixed(1) : value.toFixed(2);
}

function timeText(us) {
  if (us === 0) return "0";
  if (us < 0.9995) return digits(us * 1e3) + " ns";
  if (us < 999.5) return digits(us) + " µs";
  if (us < 999500) return digits(us / 1e3) + " ms";
  return digits(us / 1e6) + " s";
}

function bytesText(bytes) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  for (; bytes >= 1023.5 && unit < units.length - 1; unit++) bytes /= 1024;
  return (unit ? digits(bytes) : String(bytes)) + " " + units[unit];
}

function speedText(bytes, us) {
  if (!bytes || !us) return "–";
  const gigabytes = bytes / us / 1e3;
  return (gigabytes >= 0.01 ? digits(gigabytes) : gigabytes.toPrecision(1)) + " GB/s";
}

function shareText(part, whole) {
  return whole ? (100 * part / whole).toFixed(1) + " %" : "–";
}

function countText(count) {
  return String(count).replace(/\B(?=(\d{3})+$)/g, "\u2009");
}

function placeText(args) {
  const place = args.file ? args.file + ":" + args.line : "";
  return [args.label, args.operation, place].filter(Boolean).join("  ·  ");
}

// A line of the ruler every 1, 2 or 5 of a unit: about `wanted` of them in `span`.
function tickStep(span, wanted) {
  const rough = span / wanted, power = 10 ** Math.floor(Math.log10(rough));
  return power * (rough / power > 5 ? 10 : rough / power > 2 ? 5 : rough / power > 1 ? 2 : 1);
}

// "1.25 ms" with as many decimals as the step asks for; all ticks in the unit that suits the last of them.
function tickText(us, step, last) {
  const [scale, unit] = last >= 2e6 ? [1e6, "s"] : last >= 2e3 ? [1e3, "ms"] : last >= 2 ? [1, "µs"] : [1e-3, "ns"];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / scale) + 1e-9));
  return (us / scale).toFixed(decimals) + " " + unit;
}
