// What stands beside the map, in words and small pictures.

import { el, svg } from "./elements.js";
import { number } from "./scene.js";
import { amount, measures, named } from "./tradeoff.js";

const percent = (share) => (share === null || share === undefined ? "–" : `${number(100 * share, 3)} %`);

export function figures(pairs) {
  return el("dl", { class: "figures" }, pairs.map(([name, value, title]) => el("div", { title }, el("dt", {}, name), el("dd", {}, value))));
}

// What a structure means, where its name alone may mislead.
const MEANS = {
  connected: "Each region is in one piece.",
  "orthogonally convex": "Each line along an axis crosses each region in one piece; slanting lines may cross it more than once.",
  "linear scores": "Each action has a score that is linear in the state, and the largest decides.",
  "linear index": "One weighted sum of the axes decides, by its level.",
};

export function facts(view, structure, offer) {
  const { model } = view;
  const axes = model.axes.map((axis) => `${axis.name} ${axis.values.length}`).join(" × ");
  const parts = [
    figures([
      ["states", model.states.toLocaleString("en"), axes],
      ["actions", String(model.actions.length), model.actions.slice(0, 12).join(", ")],
      ["criterion", model.criterion],
      [view.gain === null ? "numerical error of values, at most" : "numerical error of the average, at most", view.bound],
    ]),
  ];
  if (view.gain !== null) parts.push(el("p", {}, `On average ${number(view.gain)} ${view.unit}, in ${model.stated_in}.`));
  if (!structure) return [...parts, el("p", { class: "soft" }, "Looking at the structure …")];
  const g = structure.geometry;
  if (structure.measures.length) parts.push(el("h3", {}, "Measures of this policy"), figures(measures(structure.measures)));
  parts.push(
    el("h3", {}, "Geometry"),
    figures([
      ["cells", String(g.region_components), "connected sets of states with one action"],
      ["boundary length", number(g.boundary_length, 3), "share of neighbouring pairs with different actions"],
      ["boundary states", percent(g.boundary_fraction), "share of states that touch a boundary"],
      ["corner index", number(g.corner_index, 3), "how often the boundary turns"],
    ]),
    el("h3", {}, "Structure"),
  );
  const ordered = [...structure.structures].sort((a, b) => b.holds - a.holds);
  if (structure.remark) parts.push(el("p", { class: "soft" }, structure.remark));
  parts.push(
    el("ul", { class: "tests" }, ordered.map((test) =>
      el("li", { class: test.holds ? "holds" : "fails", title: [MEANS[test.name], test.says].filter(Boolean).join(" ") }, el("span", { class: "unseen" }, test.holds ? "holds: " : "fails: "), test.name))),
  );
  if (offer.theory.length)
    parts.push(el("h3", {}, "Theory, at the defaults"), ...offer.theory.map((known) => el("p", {}, el("strong", {}, known.structure), `: ${known.says}`)));
  return parts;
}

export function rule(found, take) {
  return [
    figures([
      ["parameters", String(found.size), `the table has ${found.table_size} entries`],
      ["replaces a table of", found.table_size.toLocaleString("en")],
      ["loses", found.loses],
      ["states where the rule differs", counted(found)],
    ]),
    el("pre", { class: "words" }, found.says),
    found.stopped ? el("p", { class: "soft" }, "The search was stopped by its time limit; a longer one may find a smaller rule.") : null,
    frontier(found),
    el("h3", {}, "Export"),
    el("div", { class: "buttons", id: "downloads" },
      [["C", "rule.c"], ["SQL", "rule.sql"], ["Python", "rule.py"], ["Excel", "rule.xlsx"], ["JSON", "rule.json"], ["CSV", "rule.csv"]].map(([said, file]) =>
        el("button", { onclick: () => take(file), "data-file": file }, said)),
      el("button", { onclick: () => take("certificate.json"), "data-file": "certificate.json" }, "Certificate")),
    el("details", {}, el("summary", {}, "Results by rule type"), el("ul", {}, found.classes.map((said) => el("li", {}, said)))),
    found.summary ? el("details", {}, el("summary", {}, "The certificate"), el("pre", {}, found.summary)) : null,
  ];
}

// Where a policy is worse than the best, and where it only chooses otherwise among the best.
const counted = ({ errors, ties }) => `${errors.toLocaleString("en")}${ties ? ` (and ${ties.toLocaleString("en")} ties)` : ""}`;

const WIDE = 320, HIGH = 150, LEFT = 46, LOW = 28;

function frontier(found) {
  const points = found.frontier.filter((point) => point.size > 0);
  if (points.length < 2) return null;
  const sizes = points.map((point) => Math.log(point.size));
  const most = Math.max(...points.map((point) => point.loss), found.loss_limit || 0) || 1;
  const top = Math.min(most, Math.max(4 * (found.loss_limit || 0), points[points.length - 1].loss * 2) || most);
  const x = (size) => LEFT + ((Math.log(size) - sizes[0]) / (sizes[sizes.length - 1] - sizes[0] || 1)) * (WIDE - LEFT - 12);
  const y = (loss) => 10 + (1 - Math.min(loss / top, 1)) * (HIGH - LOW - 10);
  const inside = [];
  const line = (a, b, c, d, kind) => inside.push(svg("line", { x1: a, y1: b, x2: c, y2: d, class: kind }));
  const text = (a, b, said, anchor) => {
    const made = svg("text", { x: a, y: b, "text-anchor": anchor });
    made.textContent = said;
    inside.push(made);
  };
  line(LEFT, HIGH - LOW, WIDE - 8, HIGH - LOW, "axis");
  line(LEFT, 8, LEFT, HIGH - LOW, "axis");
  if (found.loss_limit) {
    line(LEFT, y(found.loss_limit), WIDE - 8, y(found.loss_limit), "loss-limit");
    text(WIDE - 10, y(found.loss_limit) - 4, "maximum loss", "end");
  }
  for (const point of points) {
    const made = svg("circle", { cx: x(point.size), cy: y(point.loss), r: point.size === found.size ? 5 : 3, class: point.size === found.size ? "chosen" : "point" });
    const said = svg("title");
    said.textContent = `${point.class}: ${point.size} parameter${point.size === 1 ? "" : "s"}, loss ${number(point.loss, 4)}`;
    made.append(said);
    inside.push(made);
  }
  text(LEFT - 5, y(top) + 4, number(top, 2), "end");
  text(LEFT - 5, y(0) + 4, "0", "end");
  text(x(points[0].size), HIGH - 12, String(points[0].size), "middle");
  text(x(points[points.length - 1].size), HIGH - 12, String(points[points.length - 1].size), "end");
  text((LEFT + WIDE) / 2, HIGH - 2, "parameters", "middle");
  return el("figure", { class: "frontier" }, el("figcaption", {}, "Loss and size: the best rule of each size"),
    svg("svg", { viewBox: `0 0 ${WIDE} ${HIGH}`, role: "img", "aria-label": "Loss and number of parameters" }, ...inside));
}

export function learned(found) {
  const share = found.errors / found.states;
  return [
    figures([
      ["errors", `${counted(found)} of ${found.states.toLocaleString("en")}`],
      ["policy error", percent(share)],
      ["parameters", found.size.toLocaleString("en")],
      ["loses", found.loses],
    ]),
    el("p", { class: "soft" }, "Red lines are the learned boundaries, red dots states whose action is not optimal. Loss is the total from a state onwards, Local loss that of the single decision."),
    found.summary ? el("details", {}, el("summary", {}, "The certificate"), el("pre", {}, found.summary)) : null,
  ];
}

export function change(found) {
  const costs = found.stated_in === "costs";
  const { before, after } = found;
  const per = ` ${found.unit}`;
  const rows = [
    ["policy", before.policy, after.policy],
    ["stores", before.size, after.size].map((cell) => (typeof cell === "number" ? cell.toLocaleString("en") : cell)),
  ];
  if (found.comparable)
    rows.push(
      [costs ? `costs at most${per}` : `worth at least${per}`, before.surely, after.surely],
      ["loses at most", before.loses, after.loses],
      ["as a share of the optimum", before.loses_share, after.loses_share],
    );
  for (const one of found.measures ?? []) rows.push([named(one.name), ...one.values.map((value) => amount(value, one.is_share))]);
  if (before.optimum !== after.optimum || !found.comparable) rows.push(["optimum of these settings", number(before.optimum), number(after.optimum)]);
  const sides = el("table", { class: "sides" }, el("thead", {}, el("tr", {}, ["", "kept", "now"].map((head) => el("th", {}, head)))),
    el("tbody", {}, rows.map((row) => el("tr", {}, row.map((cell, k) => el(k ? "td" : "th", {}, cell))))));
  if (!found.comparable)
    return [sides, el("p", { class: "soft" }, "The two models have different states or actions, so neither policy can replace the other; each is evaluated under its own settings.")];
  return [...stake(found, costs, per), sides, ...parts(found, costs)];
}

function stake(found, costs, per) {
  const all = found.states.toLocaleString("en");
  if (!found.changed) return [el("p", {}, `Both do the same in all ${all} states.`)];
  const better = costs ? found.gain <= 0 : found.gain >= 0;
  const verb = costs ? (better ? "saves" : "costs") : better ? "earns" : "loses";
  const share = Math.abs(found.gain / found.before.worth);
  return [
    figures([
      [`the change ${verb}${per}`, `${number(Math.abs(found.gain), 4)}${Number.isFinite(share) ? ` (${percent(share)})` : ""}`],
      ["states that change", `${found.changed.toLocaleString("en")} of ${all}`],
    ]),
  ];
}

function parts(found, costs) {
  const said = el("p", { class: "soft" }, "Both policies are evaluated under the current settings. The change is what you gain by switching from the kept policy to the current one.");
  if (!found.changes.length) return [said];
  return [
    said,
    el("h3", {}, "Where it comes from"),
    el("table", {}, el("thead", {}, el("tr", {}, ["from", "to", "states", costs ? "cost" : "worth"].map((head) => el("th", {}, head)))),
      el("tbody", {}, found.changes.slice(0, 8).map((row) =>
        el("tr", {}, [row.from, row.to, row.states.toLocaleString("en"), number(row.gain, 3)].map((cell) => el("td", {}, cell)))))),
    el("p", { class: "soft" }, `In these states ${percent(found.time_before)} of the time is spent under the kept policy, ${percent(found.time_after)} under the current one.`),
  ];
}

export function path(found, view) {
  const steps = found.actions.length;
  const what = view.model.stated_in === "costs" ? "cost" : "reward";
  return [
    figures([
      ["periods", String(steps) + (found.ended ? ", then it ended" : "")],
      [`${what} ${found.unit}`, number(found.mean, 4)],
      [`${what}, discounted`, number(found.total, 5)],
    ]),
    el("p", { class: "soft" }, view.model.axes.length > 2 ? "The path is drawn on the two axes that are shown, whatever the values of the others." : "An open ring is where it starts, a full one where it ends."),
  ];
}
