// The curve of a trade-off: what levels of a measure cost, and the policy at the level that is chosen.

import { el, svg } from "./elements.js";
import { number } from "./scene.js";

const WIDE = 340, HIGH = 220, LEFT = 58, RIGHT = 12, TOP = 12, LOW = 44;

export const named = (measure) => measure.replaceAll("_", " ");

// A measure: of a share, in per cent.
export function amount(value, isShare, digits = 5) {
  if (value === null || value === undefined) return "its denominator is 0";
  return isShare ? `${number(100 * value, digits)} %` : number(value, digits);
}

export const levelText = ({ better, is_share }, level) => `at ${better === "more" ? "least" : "most"} ${amount(level, is_share)}`;

const costs = (found) => found.stated_in === "costs";

// The figures of a policy: [name, value, how far it may be off].
export function measures(list, at = 0) {
  return list.map((one) => [named(one.name), amount(one.values[at], one.is_share), one.off[at] && `off by at most ${one.off[at]}`]);
}

// What is known of the level that is chosen.
export function facts(found, at) {
  const point = found.points[at];
  const others = point.measures.filter((one) => one.name !== found.measure);
  const own = amount(point.value, found.is_share);
  return [
    [costs(found) ? `least cost ${found.unit}` : `most reward ${found.unit}`, number(point.bound), `of all policies with this level, known within ${point.within}`],
    [costs(found) ? "the policy found costs" : "the policy found earns", number(point.objective)],
    [`its ${named(found.measure)}`, own],
    ...measures(others),
  ];
}

// Bounds as steps, since between two levels that of the less demanding one holds; policies as points.
export function picture(found, at, pick) {
  const { points } = found;
  const ends = (values) => [Math.min(...values), Math.max(...values)];
  const [left, right] = ends(points.flatMap((point) => [point.level, point.value]));
  const amounts = (some) => some.flatMap((point) => [point.bound, point.objective]);
  const [least, most] = ends(amounts(points));
  const [from, to] = ends(amounts(points.slice(0, -1))); // the last level may cost many times as much as all others
  const [low, high] = [Math.max(least, from - (to - from) / 4), Math.min(most, to + (to - from) / 4)];
  const x = (value) => LEFT + ((value - left) / (right - left || 1)) * (WIDE - LEFT - RIGHT);
  const y = (value) => TOP + (1 - (Math.min(Math.max(value, low), high) - low) / (high - low || 1)) * (HIGH - TOP - LOW);
  const text = (a, b, said, anchor) => Object.assign(svg("text", { x: a, y: b, "text-anchor": anchor }), { textContent: said });
  const line = (a, b, c, d, kind) => svg("line", { x1: a, y1: b, x2: c, y2: d, class: kind });
  const chosen = points[at];
  const steps = points.map((point, k) => (k ? `H${x(point.level)}V${y(point.bound)}` : `M${x(point.level)},${y(point.bound)}`)).join("");
  const dots = points.map((point, k) => {
    const dot = svg("circle", { cx: x(point.value), cy: y(point.objective), r: 4, class: "point" });
    dot.append(Object.assign(svg("title"), { textContent: `${named(found.measure)} ${levelText(found, point.level)}` }));
    dot.addEventListener("click", () => pick(k));
    return dot;
  });
  const what = `${costs(found) ? "cost" : "reward"} ${found.unit}`;
  return el("figure", { class: "frontier" },
    svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": `${what} against ${named(found.measure)}` },
      line(LEFT, HIGH - LOW, WIDE - RIGHT, HIGH - LOW, "axis"),
      line(LEFT, TOP, LEFT, HIGH - LOW, "axis"),
      line(x(chosen.level), TOP, x(chosen.level), HIGH - LOW, "loss-limit"),
      svg("path", { d: steps, class: "bound" }),
      ...dots,
      svg("circle", { cx: x(chosen.value), cy: y(chosen.objective), r: 7, class: "ring" }),
      text(LEFT - 6, y(high) + 4, number(high, 4), "end"),
      text(LEFT - 6, y(low) + 4, number(low, 4), "end"),
      text(LEFT, HIGH - LOW + 16, amount(left, found.is_share, 4), "start"),
      text(WIDE - RIGHT, HIGH - LOW + 16, amount(right, found.is_share, 4), "end"),
      text((LEFT + WIDE) / 2, HIGH - 10, named(found.measure), "middle"),
      svg("g", { transform: `translate(12 ${(HIGH - LOW) / 2}) rotate(-90)` }, text(0, 0, what, "middle"))),
    el("figcaption", {}, `Line: no policy of any kind ${costs(found) ? "costs less" : "earns more"}, proven. Dots: policies; the ringed one is that of this level. Dashed: the level.${low > least || high < most ? " The last dot is off the scale." : ""}`));
}
