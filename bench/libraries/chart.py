"""Line charts as SVG: panels side by side two in a row, x logarithmic, y linear from 0, one legend."""
import math
from collections import namedtuple
from html import escape

Panel = namedtuple("Panel", "title lines")  # lines: {name: [(x, y)...]}, the same names in every panel
COLORS = ["#0072b2", "#d55e00", "#009e73", "#cc79a7"]  # told apart by the colour-blind too (Okabe and Ito)
WIDTH, HEIGHT, LEFT, TOP, GAP = 400, 240, 70, 90, 90


def step_for(most):
    """A round distance of lines so that there are three to six of them."""
    power = 10 ** math.floor(math.log10(most / 3)) if most > 0 else 1
    return next(power * times for times in (1, 2, 2.5, 5, 10) if most / (power * times) <= 6)


def short(number):
    for size, letter in ((1e6, "M"), (1e3, "k")):
        if number >= size:
            return f"{number / size:g}{letter}"
    return f"{number:g}"


def style(i):
    """Pairs of lines share a colour; the second of each is dashed."""
    return f'stroke="{COLORS[i // 2 % len(COLORS)]}"' + (' stroke-dasharray="6 4"' if i % 2 else "")


def panel_text(panel, left, top, x_title):
    xs = [x for line in panel.lines.values() for x, _ in line]
    low, high = math.log10(min(xs)), math.log10(max(xs))
    most = max(y for line in panel.lines.values() for _, y in line) or 1
    step = step_for(most)
    ceiling = step * math.ceil(most / step)

    def at(x, y):
        return left + WIDTH * (math.log10(x) - low) / ((high - low) or 1), top + HEIGHT * (1 - y / ceiling)

    parts = [f'<text x="{left}" y="{top - 12}" font-weight="bold">{escape(panel.title)}</text>']
    for i in range(round(ceiling / step) + 1):
        y = at(min(xs), i * step)[1]
        parts.append(f'<line x1="{left}" x2="{left + WIDTH}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>'
                     f'<text x="{left - 8}" y="{y + 4:.1f}" text-anchor="end">{short(i * step)}</text>')
    for power in range(math.ceil(low), math.floor(high) + 1):
        x = at(10**power, 0)[0]
        parts.append(f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{top}" y2="{top + HEIGHT}" stroke="#ddd"/>'
                     f'<text x="{x:.1f}" y="{top + HEIGHT + 18}" text-anchor="middle">{short(10**power)}</text>')
    parts.append(f'<text x="{left + WIDTH / 2}" y="{top + HEIGHT + 38}" text-anchor="middle">{escape(x_title)}</text>')
    for i, line in enumerate(panel.lines.values()):
        points = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in line))
        parts.append(f'<polyline points="{points}" fill="none" stroke-width="2" {style(i)}/>')
    return "\n".join(parts)


def draw(title, x_title, panels):
    names = list(panels[0].lines)
    width = LEFT + 2 * (WIDTH + GAP)
    rows = (len(panels) + 1) // 2
    height = TOP + rows * (HEIGHT + GAP) + 20
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" '
             'font-family="sans-serif" font-size="13" fill="#222">',
             f'<rect width="{width}" height="{height}" fill="#fff"/>',
             f'<text x="{LEFT}" y="26" font-size="18" font-weight="bold">{escape(title)}</text>']
    for i, name in enumerate(names):
        x, y = LEFT + i // 2 * 150, 46 + i % 2 * 18
        parts.append(f'<line x1="{x}" x2="{x + 28}" y1="{y - 4}" y2="{y - 4}" stroke-width="2" {style(i)}/>'
                     f'<text x="{x + 34}" y="{y}">{escape(name)}</text>')
    for i, panel in enumerate(panels):
        parts.append(panel_text(panel, LEFT + i % 2 * (WIDTH + GAP), TOP + 20 + i // 2 * (HEIGHT + GAP), x_title))
    return "\n".join(parts + ["</svg>", ""])
