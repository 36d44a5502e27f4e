// The map: cells, boundaries, what lies over them, axes. Drawn by any pen, so that the page, a PNG
// and an SVG show the same. Place (i, j) is column i of the first axis, row j of the second: upwards, or
// downwards where the view says so (`down`, of a map of rows and columns).

import { KINDS, ends, painter } from "./colours.js";

const MOST_FACES = 60000; // states up to which boundaries and differences are drawn
export const EDGE = { left: 56, right: 12, top: 10, bottom: 46 };

export function inks(dark) {
  return dark
    ? { text: "#c4cdd2", strong: "#e8ecee", frame: "#55626a", paper: "#1a2024" }
    : { text: "#4e5960", strong: "#1c2226", frame: "#9aa4aa", paper: "#ffffff" };
}

export function frameOf(width, height) {
  return { x: EDGE.left, y: EDGE.top, w: width - EDGE.left - EDGE.right, h: height - EDGE.top - EDGE.bottom };
}

export function sizeOf(view) {
  return [view.table.length, view.table[0].length];
}

export function placeAt(view, box, x, y) {
  const [nx, ny] = sizeOf(view);
  const i = Math.floor(((x - box.x) / box.w) * nx);
  const j = Math.floor(((view.down ? y - box.y : box.y + box.h - y) / box.h) * ny);
  return i >= 0 && j >= 0 && i < nx && j < ny ? [i, j] : null;
}

// options: kind (what colours show), overlay (whether another policy lies over the map), alone (that
// policy is shown in the map's place), other (the table to mark differences from), path, ink
export function draw(pen, box, view, { kind, overlay, alone, other, path, ink }) {
  const [nx, ny] = sizeOf(view);
  const [dx, dy] = [box.w / nx, box.h / ny];
  const corner = (i, j) => [box.x + i * dx, vertical(view, box, j)];
  const centre = (i, j) => [box.x + (i + 0.5) * dx, vertical(view, box, j + 0.5)];
  const laid = overlay && view.overlay ? view.overlay : null;
  const table = alone && laid ? laid : view.table;
  const plain = kind === "action";
  const paint = painter(view, kind, table);
  pen.cells(box, nx, ny, view.down ? (i, j) => paint(i, ny - 1 - j) : paint);
  if (nx * ny <= MOST_FACES) {
    pen.lines(faces(table, corner), plain ? "#1c2226" : "#ffffff", plain ? 1 : 1.2);
    if (laid && !alone) outline(pen, faces(laid, corner), nx * ny, plain);
    if (plain && other) marks(pen, table, (i, j) => other[i]?.[j] !== undefined && other[i][j] !== table[i][j], centre, Math.min(dx, dy));
    else if (plain && laid && !alone) marks(pen, laid, (i, j) => view.worse[i][j], centre, Math.min(dx, dy));
  }
  if (path) way(pen, path, centre);
  pen.rect(box.x, box.y, box.w, box.h, { line: ink.frame });
  axes(pen, box, view, ink);
}

// How far down a place along the second axis is.
const vertical = (view, box, j) => (view.down ? box.y : box.y + box.h) + ((view.down ? j : -j) * box.h) / sizeOf(view)[1];

// The boundaries of a policy that lies over the map; where they are everywhere they are thin, and do
// not hide what other colours show.
function outline(pen, edges, cells, plain) {
  const busy = edges.length > cells / 5;
  if (!busy) pen.lines(edges, "#ffffff", 5);
  if (!busy || plain) pen.lines(edges, "#b3261e", busy ? 1.2 : 2.4);
}

// The frame around a state.
export function point(pen, box, view, cursor) {
  const [nx, ny] = sizeOf(view);
  if (!cursor || cursor[0] >= nx || cursor[1] >= ny) return;
  const [dx, dy] = [box.w / nx, box.h / ny];
  const [x, y] = [box.x + cursor[0] * dx, vertical(view, box, cursor[1] + (view.down ? 0 : 1))];
  pen.rect(x, y, dx, dy, { line: "#ffffff", width: 4 });
  pen.rect(x, y, dx, dy, { line: "#111111", width: 2 });
}

// Lines between neighbours that differ, joined where they continue each other.
function faces(table, corner) {
  const [nx, ny] = [table.length, table[0].length];
  const found = [];
  for (let i = 0; i + 1 < nx; i++)
    stretch(ny, (j) => table[i][j] !== table[i + 1][j], (a, b) => found.push([...corner(i + 1, a), ...corner(i + 1, b)]));
  for (let j = 0; j + 1 < ny; j++)
    stretch(nx, (i) => table[i][j] !== table[i][j + 1], (a, b) => found.push([...corner(a, j + 1), ...corner(b, j + 1)]));
  return found;
}

function stretch(count, there, found) {
  let first = -1;
  for (let k = 0; k <= count; k++) {
    const on = k < count && there(k);
    if (on && first < 0) first = k;
    if (!on && first >= 0) {
      found(first, k);
      first = -1;
    }
  }
}

// Dots where a policy differs: from another that is shown, or from the best, unless both are as good.
function marks(pen, table, differs, centre, size) {
  const r = Math.max(1, Math.min(size * 0.22, 5));
  table.forEach((column, i) =>
    column.forEach((_, j) => {
      if (differs(i, j)) pen.dot(...centre(i, j), r, "#b3261e", size > 11 ? "#ffffff" : null);
    }));
}

function way(pen, path, centre) {
  const points = path.map(([i, j]) => centre(i, j));
  pen.way(points, "#ffffff", 4.5);
  pen.way(points, "#7b1fa2", 2);
  const [first, last] = [points[0], points[points.length - 1]];
  pen.dot(...first, 5, "#ffffff", "#7b1fa2");
  pen.dot(...last, 5, "#7b1fa2", "#ffffff");
}

function axes(pen, box, view, ink) {
  const [nx, ny] = sizeOf(view);
  const named = view.shown.map((name) => view.model.axes.find((axis) => axis.name === name));
  for (const i of ticks(nx, box.w / 44)) {
    const x = box.x + ((i + 0.5) * box.w) / nx;
    pen.lines([[x, box.y + box.h, x, box.y + box.h + 4]], ink.frame, 1);
    pen.text(x, box.y + box.h + 14, label(named[0].values[i]), { colour: ink.text });
  }
  pen.text(box.x + box.w / 2, box.y + box.h + 35, named[0].name, { colour: ink.strong, size: 13, bold: true });
  if (!named[1]) return;
  for (const j of ticks(ny, box.h / 28)) {
    const y = vertical(view, box, j + 0.5);
    pen.lines([[box.x - 4, y, box.x, y]], ink.frame, 1);
    pen.text(box.x - 8, y, label(named[1].values[j]), { colour: ink.text, align: "right" });
  }
  pen.text(box.x - 44, box.y + box.h / 2, named[1].name, { colour: ink.strong, size: 13, bold: true, turn: true });
}

function ticks(count, most) {
  const steps = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000];
  const step = steps.find((s) => count / s <= Math.max(most, 2)) ?? count;
  return Array.from({ length: Math.ceil(count / step) }, (_, k) => k * step);
}

export function label(value) {
  const text = typeof value === "number" ? number(value) : String(value);
  return text.length > 9 ? text.slice(0, 8) + "…" : text;
}

const RAISED = { "-": "⁻", 0: "⁰", 1: "¹", 2: "²", 3: "³", 4: "⁴", 5: "⁵", 6: "⁶", 7: "⁷", 8: "⁸", 9: "⁹" };

export function number(value, digits = 6) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0";
  const size = Math.abs(value);
  if (size >= 1e7 || size < 1e-4) {
    const [figures, power] = value.toExponential(Math.min(digits, 3) - 1).split("e");
    return `${+figures} × 10${[...power.replace("+", "")].map((c) => RAISED[c]).join("")}`;
  }
  return String(+value.toPrecision(digits));
}

// What the colours mean: [{colour, said}] for actions, {ramp, low, high, label} for quantities.
export function legend(view, kind) {
  if (kind === "action" || !view.fields[kind])
    return { name: view.model.action_name, entries: view.used.map((a) => ({ colour: view.colours[a], said: view.model.actions[a] })) };
  const { ramp, scale } = KINDS[kind];
  const [low, high] = ends(view.ranges[kind], scale);
  const costs = view.model.stated_in === "costs";
  const names = {
    value: costs ? "expected cost from here on" : "expected reward from here on",
    margin: "margin: best minus second-best action",
    visits: "share of time under the optimal policy",
    loss: "what the shown policy loses from here on",
    local: "given away by its action here alone",
  };
  return { name: names[kind], ramp, low: number(low, 4), high: number(high, 4), log: scale === "log" };
}

// A whole picture, with title and legend, for a file.
export function picture(pen, width, height, view, options, title) {
  const { ink } = options;
  pen.rect(0, 0, width, height, { fill: ink.paper });
  pen.text(EDGE.left, 22, title, { colour: ink.strong, size: 16, bold: true, align: "left" });
  const said = legend(view, options.kind);
  const box = { x: EDGE.left, y: 44, w: width - EDGE.left - EDGE.right, h: height - 44 - EDGE.bottom - 44 };
  draw(pen, box, view, options);
  let x = EDGE.left;
  const y = height - 22;
  pen.text(x, y, said.name, { colour: ink.text, align: "left" });
  x += 12 + 6.6 * said.name.length;
  if (said.ramp) {
    said.ramp.forEach((colour, k) => pen.rect(x + 60 + 8 * k, y - 7, 8.3, 14, { fill: colour }));
    pen.text(x + 54, y, said.low, { colour: ink.text, align: "right" });
    pen.text(x + 66 + 8 * said.ramp.length, y, said.high, { colour: ink.text, align: "left" });
    return;
  }
  for (const entry of said.entries) {
    if (x > width - 60) break;
    pen.rect(x, y - 7, 14, 14, { fill: entry.colour, line: ink.frame });
    pen.text(x + 20, y, entry.said, { colour: ink.text, align: "left" });
    x += 34 + 6.8 * entry.said.length;
  }
}
