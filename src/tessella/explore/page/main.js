// The page: what is shown (`view`), what the server said last (`drawn`), and how one follows the other.

import * as server from "./server.js";
import { KINDS } from "./colours.js";
import { byId, el, pause } from "./elements.js";
import * as findings from "./findings.js";
import { CanvasPen, SvgPen } from "./pens.js";
import { draw, frameOf, inks, label, legend, number, picture, placeAt, point, sizeOf } from "./scene.js";
import { badNumbers, build, settingsOf } from "./sliders.js";
import { fresh, read, written } from "./state.js";
import * as tradeoff from "./tradeoff.js";

const LOSS_LIMITS = [0, 0.0001, 0.0002, 0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5];
const SAMPLES = [25, 50, 100, 200, 400, 800, 1600, 3200, 6400];
const VALUES = ["tabular_q", "double_q", "fitted_q"]; // methods that are told transitions, not labels: there is no noise
const OVERLAYS = { rule: "the rule", learned: "learned", level: "at this level" };
const TABS = ["facts", "rule", "level", "learn", "compare", "path"];

let view = read(location.hash || location.search);
let offers = [];
let offer = null;
let drawn = null; // the map of now
let kept = null; // the map that was pinned
let keptAsked = ""; // what it was asked for with
let structure = null;
let walked = null;
let curve = null; // the trade-off that is drawn
let ready = ""; // the overlay that the server has made
let redraws = 0;
let arrived = false; // whether a map of this model was drawn

const canvas = byId("map");
const keptCanvas = byId("pinned").querySelector("canvas");

// --- asking -------------------------------------------------------------------------------------

function base() {
  const asked = { model: view.model, settings: settingsOf(offer, view.set) };
  const shown = [view.x, view.y].filter(Boolean);
  if (shown.length) asked.shown = shown;
  if (Object.keys(view.at).length) asked.at = view.at;
  return asked;
}

function overlayOf() {
  if (view.overlay === "rule") return { kind: "rule", ...view.rule };
  if (view.overlay === "level") {
    const { measure, better, at, ruled, loss } = view.level;
    return { kind: "level", measure, better, at, ...(ruled.includes(at) ? { rule: true, loss, seconds: view.rule.seconds } : {}) };
  }
  if (view.overlay !== "learned") return undefined;
  const { noise, ...others } = view.learn;
  return { kind: "learned", ...others, ...(noise === null ? {} : { noise }) };
}

const overlayKey = () => JSON.stringify([view.model, settingsOf(offer, view.set), overlayOf()]);
const overlaid = () => view.overlay !== "none" && ready === overlayKey();

function askMap() {
  const asked = base();
  if (view.colour === "visits" || (KINDS[view.colour].over && overlaid())) asked.fields = [view.colour];
  if (overlaid()) asked.overlay = overlayOf();
  mapLine.ask(asked);
  if (view.pin) askKept(asked);
}

// The map that was kept: again only where it would be another one.
function askKept({ model, shown, at }) {
  const { settings, overlay } = view.pin;
  const wanted = view.colour === "visits" || (KINDS[view.colour].over && overlay);
  const asked = { model, shown, at, settings, overlay: overlay ?? undefined, fields: wanted ? [view.colour] : undefined };
  if (JSON.stringify(asked) === keptAsked) return;
  keptAsked = JSON.stringify(asked);
  keptLine.ask(asked);
}

const askLater = pause(350, () => {
  structureLine.ask({ model: view.model, settings: settingsOf(offer, view.set) });
  if (view.overlay !== "none" && !overlaid()) return; // what is being made will ask
  if (view.path.on) askPath();
  if (view.pin) askChange();
});

function askChange() {
  const before = { model: view.model, settings: view.pin.settings };
  if (view.pin.overlay) before.overlay = view.pin.overlay;
  changeLine.ask({ ...base(), ...(overlaid() ? { overlay: overlayOf() } : {}), before });
}

function askPath() {
  const { periods, seed, start } = view.path;
  pathLine.ask({ ...base(), periods, seed, ...(start === null ? {} : { start }), ...(overlaid() ? { overlay: overlayOf() } : {}) });
}

const busyLater = pause(250, () => (byId("busy").hidden = !mapLine.running));

const mapLine = new server.Line("map", {
  done(found, asked) {
    drawn = found;
    arrived = true;
    document.body.classList.remove("stale");
    tell("");
    settled(asked);
    render();
    canvas.dataset.settings = JSON.stringify(asked.settings);
    canvas.dataset.drawn = String(++redraws);
  },
  failed(why, asked) {
    if (!arrived && Object.keys(asked.settings).length) return useDefaults(why);
    document.body.classList.add("stale"); // the map is not that of the settings
    tell(why);
  },
  busy(on) {
    canvas.setAttribute("aria-busy", on);
    if (on) busyLater();
    else byId("busy").hidden = true;
  },
});

const keptLine = new server.Line("map", {
  done(found) {
    kept = found;
    render();
  },
  failed(why) {
    [kept, keptAsked] = [null, ""];
    tell(why);
  },
});

const structureLine = new server.Line("structure", {
  done(found) {
    structure = found;
    showFacts();
  },
  failed: tell,
});

const changeLine = panelLine("change", "change", findings.change);
const pathLine = panelLine("path", "path", (found) => {
  walked = found;
  render();
  return findings.path(found, drawn);
});
const ruleLine = panelLine("rule", "rule", (found) => {
  overlayMade();
  return findings.rule(found, take);
}, () => `Searching, for ${view.rule.seconds} s at most …`);
const learnLine = panelLine("learned", "learned", (found) => {
  overlayMade();
  return findings.learned(found);
}, () => "Learning …");

const levelRuleLine = panelLine("rule", "level-rule", (found) => {
  overlayMade();
  return findings.rule(found, take);
}, () => `Searching, for ${view.rule.seconds} s at most …`, () => {
  change({ level: { ...view.level, ruled: view.level.ruled.filter((at) => at !== view.level.at) } });
  overlayMade(); // the level's policy is shown in place of a rule
});
const curveLine = panelLine("tradeoff", "curve", (found) => {
  curve = found;
  follow(Math.min(view.level.at, found.points.length - 1));
  return [tradeoff.picture(found, view.level.at, follow)];
}, () => "Solving for each level …");

function panelLine(job, room, show, waiting = () => "One moment …", failed = () => {}) {
  const place = byId(room);
  return new server.Line(job, {
    done: (found) => place.replaceChildren(...show(found).filter(Boolean)),
    failed: (why) => {
      place.replaceChildren(el("p", { class: "error" }, why));
      failed();
    },
    busy: (on) => {
      place.setAttribute("aria-busy", on);
      if (on) place.replaceChildren(el("p", { class: "waiting" }, waiting()));
    },
    long: 0,
  });
}

function overlayMade() {
  ready = overlayKey();
  askMap();
  if (view.pin) askChange();
  if (view.path.on) askPath();
}

// --- showing ------------------------------------------------------------------------------------

function tell(why) {
  byId("error").hidden = !why;
  byId("error").textContent = why;
}

// The server may have chosen axes and places for us.
function settled(asked) {
  if (!asked.shown || asked.shown.join() !== drawn.shown.join()) [view.x, view.y] = ["", ""];
  showAxes();
  showSlices();
  showColours();
  showMeasures();
  if (structure) showFacts();
}

function showMeasures() {
  const { measures } = drawn.model;
  const room = byId("measure");
  byId("unmeasured").hidden = measures.length > 0;
  byId("trade").disabled = !measures.length;
  if (room.dataset.key !== JSON.stringify(measures))
    room.replaceChildren(...measures.map(({ name }) => el("option", { value: name }, tradeoff.named(name))));
  room.dataset.key = JSON.stringify(measures);
  showControls();
}

// The measure that is chosen, or else the first, and its direction.
function measureNow() {
  const { measures } = drawn.model;
  const one = measures.find(({ name }) => name === view.level.measure) ?? measures[0];
  return one ? { measure: one.name, better: view.level.better || one.better } : {};
}

// The level that is chosen: where it is on the curve, what it costs, and its rule if one was found.
function showLevel() {
  const { at } = view.level;
  const point = curve.points[at];
  const said = tradeoff.levelText(curve, point.level);
  byId("levels").hidden = false;
  byId("level-name").textContent = tradeoff.named(curve.measure);
  byId("level-said").textContent = said;
  Object.assign(byId("level"), { max: curve.points.length - 1, value: at });
  byId("level").setAttribute("aria-valuetext", said);
  byId("level-facts").replaceChildren(findings.figures(tradeoff.facts(curve, at)), el("p", {}, `${point.price[0].toUpperCase()}${point.price.slice(1)}.`));
}

const dark = () => view.theme === "dark" || (view.theme === "" && matchMedia("(prefers-color-scheme: dark)").matches);

function render() {
  if (!drawn) return;
  const pair = Boolean(view.pin && kept);
  byId("maps").classList.toggle("pair", pair);
  byId("pinned").hidden = !pair;
  const options = { ...optionsNow(), ink: inks(dark()) };
  const alike = pair && sizeOf(kept).join() === sizeOf(drawn).join();
  captions(pair);
  const [now, then] = pair ? [shownTable(drawn, overlaid()), shownTable(kept, view.pin.overlay)] : [];
  paint(canvas, drawn, pair ? { ...options, alone: true, other: alike ? then : null } : options);
  if (pair) paint(keptCanvas, kept, { ...options, kind: kept.fields[options.kind] ? options.kind : "action", overlay: Boolean(view.pin.overlay), alone: true, other: alike ? now : null, path: null });
  showLegend();
  showCursor();
}

// A policy at a level takes the place of the map.
function optionsNow() {
  return { kind: kindNow(), overlay: overlaid(), alone: view.overlay === "level", path: walked && view.path.on ? pathPlaces() : null };
}

// The cursor has moved: the maps stay, the frame goes elsewhere.
function showCursor() {
  stamp(canvas, drawn);
  if (!byId("pinned").hidden) stamp(keptCanvas, kept);
  showReadout();
}

function stamp(where, map) {
  if (!where.layer.width) return; // there is no room yet
  const context = where.getContext("2d");
  context.setTransform(1, 0, 0, 1, 0, 0);
  context.drawImage(where.layer, 0, 0);
  context.scale(where.scale, where.scale);
  point(new CanvasPen(context), where.box, map, view.cursor);
}

const shownTable = (map, overlay) => (overlay && map.overlay ? map.overlay : map.table);
const kindNow = () => (view.colour === "action" || drawn.fields[view.colour] ? view.colour : "action");

function paint(where, map, options) {
  const wide = where.parentElement.clientWidth;
  const [, ny] = sizeOf(map);
  const high = ny === 1 ? 150 : Math.round(Math.min(Math.max(wide * (byId("maps").classList.contains("pair") ? 0.95 : 0.76), 280), Math.max(innerHeight - 380, 300)));
  const scale = window.devicePixelRatio || 1;
  const size = { width: Math.round(wide * scale), height: Math.round(high * scale) };
  where.style.height = `${high}px`;
  if (where.width !== size.width || where.height !== size.height) Object.assign(where, size);
  where.layer = Object.assign(document.createElement("canvas"), size);
  where.scale = scale;
  where.box = frameOf(wide, high);
  const context = where.layer.getContext("2d");
  context.fillStyle = options.ink.paper;
  context.fillRect(0, 0, size.width, size.height);
  context.scale(scale, scale);
  draw(new CanvasPen(context), where.box, map, options);
}

function captions(pair) {
  const set = (settings) => Object.entries(settings).map(([name, value]) => `${name.replaceAll("_", " ")} ${value}`).join(", ") || "defaults";
  const said = (when, settings, name) => [el("strong", {}, when), ` ${set(settings)}; ${name}`];
  byId("current").querySelector("figcaption").replaceChildren(...(pair ? said("Now:", settingsOf(offer, view.set), policyName(overlaid() ? overlayOf() : null)) : []));
  byId("pinned").querySelector("figcaption").replaceChildren(...(pair ? said("Kept:", view.pin.settings, view.pin.name ?? policyName(view.pin.overlay)) : []));
}

// A policy, as it is asked for, in a few words.
function policyName(over) {
  if (!over) return "optimal policy";
  if (over.kind === "rule") return `rule within ${number(100 * over.loss, 3)} %${over.worst ? " from any state" : ""}`;
  if (over.kind === "level") return `${tradeoff.named(over.measure)} ${tradeoff.levelText(curve, curve.points[over.at].level)}`;
  const method = byId("learner").querySelector(`option[value="${CSS.escape(over.learner)}"]`)?.textContent ?? over.learner;
  return `${method.toLowerCase()}, told ${Number(over.samples).toLocaleString("en")}`;
}

function pathPlaces() {
  const [x, y] = drawn.shown.map((name) => walked.places[name]);
  return x ? x.map((i, k) => [i, y ? y[k] : 0]) : null;
}

function showLegend() {
  const used = view.pin && kept ? { ...drawn, used: [...new Set([...drawn.used, ...kept.used])].sort((a, b) => a - b) } : drawn;
  const said = legend(used, kindNow());
  const parts = [el("span", { class: "name" }, said.name)];
  if (said.ramp) {
    const bar = el("span", { class: "ramp" });
    bar.style.background = `linear-gradient(to right, ${said.ramp.join(",")})`;
    parts.push(el("span", { class: "scale" }, el("span", {}, said.low), bar, el("span", {}, said.high), said.log ? el("span", { class: "soft" }, "(logarithmic)") : null));
  } else
    for (const entry of said.entries) {
      const swatch = el("i");
      swatch.style.background = entry.colour;
      parts.push(el("span", { class: "entry" }, swatch, entry.said));
    }
  const mark = (kind, said) => parts.push(el("span", { class: "entry" }, el("i", { class: kind }), said));
  if (view.pin && kept) mark("dot", "changed");
  else if (overlaid() && view.overlay !== "level") {
    mark("line", view.overlay === "rule" ? "the rule" : "the learned policy");
    if (!said.ramp) mark("dot", "differs from the optimum");
  }
  byId("legend").replaceChildren(...parts);
}

function showReadout() {
  const room = byId("readout");
  const [nx, ny] = sizeOf(drawn);
  if (!view.cursor || view.cursor[0] >= nx || view.cursor[1] >= ny) {
    const touched = matchMedia("(pointer: coarse)").matches;
    const how = touched ? "Tap a state." : "Point at a state, or press Tab to reach the map and use the arrow keys.";
    room.replaceChildren(el("p", { class: "soft" }, how));
    return;
  }
  const [i, j] = view.cursor;
  const { model } = drawn;
  const place = model.axes.map((axis) => {
    const at = drawn.shown.indexOf(axis.name);
    return `${axis.name} ${label(axis.values[at === 0 ? i : at === 1 ? j : drawn.at[axis.name]])}`;
  });
  const second = drawn.second[i][j];
  const pairs = [
    ["state", place.join(", ")],
    [`best ${model.action_name}`, model.actions[drawn.table[i][j]], "strong"],
    ["runner-up", second < 0 ? "none" : model.actions[second]],
    ["margin", drawn.fields.margin[i][j] === null ? "one action" : drawn.decided[i][j] ? number(drawn.fields.margin[i][j], 4) : "0, a tie"],
    [model.stated_in === "costs" ? "cost" : "value", number(drawn.fields.value[i][j])],
  ];
  if (drawn.overlay && overlaid()) pairs.splice(2, 0, [OVERLAYS[view.overlay], model.actions[drawn.overlay[i][j]]]);
  if (view.pin && kept?.table[i]?.[j] !== undefined) pairs.splice(2, 0, ["kept", kept.model.actions[shownTable(kept, view.pin.overlay)[i][j]]]);
  if (drawn.fields.visits) pairs.push(["visits", `${number(100 * drawn.fields.visits[i][j], 3)} %`]);
  for (const kind of ["loss", "local"]) if (drawn.fields[kind]) pairs.push([KINDS[kind].label.toLowerCase(), number(drawn.fields[kind][i][j], 4)]);
  room.replaceChildren(el("dl", {}, pairs.map(([name, value, kind]) => el("div", { class: kind }, el("dt", {}, name), el("dd", {}, value)))));
}

function showFacts() {
  if (drawn) byId("panel-facts").replaceChildren(...findings.facts(drawn, structure, offer));
}

function showColours() {
  const room = byId("colour");
  if (!room.children.length)
    for (const [kind, { label: said }] of Object.entries(KINDS)) {
      const button = el("input", { type: "radio", name: "colour", value: kind, onchange: () => change({ colour: kind }) });
      room.append(el("label", {}, button, el("span", {}, said)));
    }
  for (const button of room.querySelectorAll("input")) {
    button.disabled = Boolean(KINDS[button.value].over) && !overlaid();
    button.parentElement.hidden = button.value === "local" && button.disabled;
    button.parentElement.title = button.disabled ? "Compress or learn first: this is the loss of a policy that lies over the map" : "";
    button.checked = button.value === view.colour;
  }
  if (KINDS[view.colour].over && view.overlay === "none") change({ colour: "action" });
}

function showAxes() {
  const room = byId("shown");
  const names = drawn.model.axes.map((axis) => axis.name);
  const key = [...names, ...drawn.shown].join();
  if (room.dataset.key === key) return;
  room.dataset.key = key;
  if (names.length < 2) return room.replaceChildren();
  const pick = (at) => {
    const picked = el("select", { "aria-label": at ? "Vertical axis" : "Horizontal axis", onchange: (event) => pickAxis(at, event.target.value) });
    for (const name of names) picked.append(el("option", { value: name }, name));
    picked.value = drawn.shown[at];
    return picked;
  };
  room.replaceChildren(pick(0), el("span", { class: "soft" }, "×"), pick(1));
}

function pickAxis(at, name) {
  const shown = [...drawn.shown];
  if (shown[1 - at] === name) shown[1 - at] = shown[at];
  shown[at] = name;
  change({ x: shown[0], y: shown[1], cursor: null });
}

function showSlices() {
  const room = byId("slices");
  const others = drawn.model.axes.filter((axis) => !drawn.shown.includes(axis.name));
  const key = others.map((axis) => axis.name + axis.values.length).join();
  if (room.dataset.key !== key) {
    room.dataset.key = key;
    room.replaceChildren(...others.map((axis) => {
      const id = `at-${axis.name}`;
      const slide = el("input", { id, type: "range", min: 0, max: axis.values.length - 1, step: 1, "data-axis": axis.name });
      slide.addEventListener("input", () => change({ at: { ...view.at, [axis.name]: Number(slide.value) } }));
      return el("div", { class: "slice" }, el("label", { htmlFor: id }, axis.name), slide, el("output", { htmlFor: id }));
    }));
  }
  for (const slide of room.querySelectorAll("input")) {
    const axis = others.find((one) => one.name === slide.dataset.axis);
    slide.value = drawn.at[axis.name];
    slide.nextElementSibling.textContent = label(axis.values[drawn.at[axis.name]]);
  }
  fillAll();
}

function showTab() {
  for (const name of TABS) {
    const tab = byId(`tab-${name}`);
    const on = name === view.tab;
    tab.setAttribute("aria-selected", on);
    tab.tabIndex = on ? 0 : -1;
    byId(`panel-${name}`).hidden = !on;
  }
}

function showTheme() {
  document.documentElement.dataset.theme = view.theme;
  byId("theme").textContent = dark() ? "Light" : "Dark";
  render();
}

function showControls() {
  const near = (list, value) => list.reduce((best, one, k) => (Math.abs(one - value) < Math.abs(list[best] - value) ? k : best), 0);
  byId("loss-limit").max = LOSS_LIMITS.length - 1;
  byId("loss-limit").value = near(LOSS_LIMITS, view.rule.loss);
  byId("loss-limit-text").textContent = `${number(100 * view.rule.loss, 3)} %`;
  byId("worst").checked = view.rule.worst;
  byId("patience").value = String(view.rule.seconds);
  byId("learner").value = view.learn.learner;
  byId("samples").value = near(SAMPLES, view.learn.samples);
  byId("samples-said").textContent = view.learn.samples.toLocaleString("en");
  const noise = view.learn.noise ?? offer?.parameters.find((one) => one.name === "observation_noise")?.default ?? 0;
  byId("noise").value = noise;
  byId("noise-said").textContent = number(Number(noise), 3);
  byId("seed").value = view.learn.seed;
  byId("periods").value = view.path.periods;
  byId("periods-said").textContent = view.path.periods;
  byId("path-seed").value = view.path.seed;
  byId("from-here").checked = view.path.start !== null;
  byId("unpin").hidden = !view.pin;
  byId("unrule").hidden = view.overlay !== "rule";
  byId("unlearn").hidden = view.overlay !== "learned";
  byId("unlevel").hidden = view.overlay !== "level";
  const { measure = "", better = "" } = drawn ? measureNow() : {};
  byId("measure").value = measure;
  byId("better").value = better;
  byId("level-loss").value = String(view.level.loss);
  byId("noise").disabled = VALUES.includes(view.learn.learner);
  byId("unwalk").hidden = !view.path.on;
  fillAll();
}

// A slider is filled up to where it stands.
function fillAll() {
  for (const range of document.querySelectorAll("input[type=range]"))
    range.style.setProperty("--share", `${(100 * (range.value - range.min)) / (range.max - range.min || 1)}%`);
}

// --- changing -----------------------------------------------------------------------------------

const remember = pause(200, () => history.replaceState(null, "", location.pathname + written(view)));

// Part of the view is new: ask for what that needs.
function change(part, { solve = false } = {}) {
  Object.assign(view, part);
  remember();
  if (Object.keys(part).join() === "cursor") return drawn && showCursor();
  if (solve) forget();
  if (solve || ["colour", "x", "y", "at"].some((key) => key in part)) askMap();
  if (solve) askLater();
  if ("tab" in part) showTab();
  if ("theme" in part) showTheme();
  showControls();
}

// What was made for other settings is no longer shown.
function forget() {
  structure = null;
  if (view.overlay !== "none") {
    const [room, button] = { rule: ["rule", "Compress"], learned: ["learned", "Learn"], level: ["curve", "Draw the curve"] }[view.overlay];
    leaveCurve();
    byId(room).replaceChildren(el("p", { class: "soft" }, `The settings have changed: press ${button} for a new one.`));
    view.overlay = "none";
    ready = "";
    if (KINDS[view.colour].over) view.colour = "action";
  }
}

function leaveCurve() {
  curve = null;
  byId("levels").hidden = true;
  for (const line of [curveLine, levelRuleLine]) line.drop();
  for (const room of ["curve", "level-rule"]) byId(room).replaceChildren();
}

// Nothing lies over the map any more.
function bare() {
  leaveCurve();
  for (const room of ["rule", "learned"]) byId(room).replaceChildren();
  ready = "";
  change({ overlay: "none", colour: KINDS[view.colour].over ? "action" : view.colour });
  if (view.pin) askChange();
  if (view.path.on) askPath();
}

function changeSetting(name, value) {
  notice("");
  change({ set: { ...view.set, [name]: value } }, { solve: true });
}

function open(name) {
  view = { ...fresh(), model: name, theme: view.theme, tab: view.tab };
  begin();
}

// What is wrong with an address stays in sight, whatever is drawn instead.
function notice(text) {
  byId("unknown").hidden = !text;
  byId("unknown").textContent = text;
}

// An address may have settings that no model can be built with.
function useDefaults(why) {
  notice(`The settings in this address do not work, so the defaults are shown: ${why}`);
  build(byId("sliders"), offer, {}, changeSetting);
  change({ set: {} }, { solve: true });
}

// An address may name a model that is not on offer here.
function unknown(name, shown) {
  if (!name) return "";
  const why = name === "own"
    ? "This address is about a model that another explorer was started with. To see it here, start: tessella explore MODEL"
    : `No model here is called “${name.slice(0, 60)}”. Choose one from the list above; for a model of your own, start: tessella explore MODEL`;
  return `${why} (a problem's name, or a file). Shown instead is ${shown}.`;
}

function begin() {
  const known = offers.find((one) => one.name === view.model);
  offer = known ?? offers.find((one) => one.name === "INV-Mix") ?? offers[0];
  const bad = badNumbers(offer, view.set);
  notice([unknown(known ? "" : view.model, offer.label), ...bad.map(([name, said]) => `“${said.slice(0, 60)}” is no value for ${name}; its default is used.`)].filter(Boolean).join(" "));
  for (const [name] of bad) delete view.set[name];
  view.model = offer.name;
  byId("model").value = offer.name;
  byId("title").textContent = offer.title;
  document.title = `${offer.label} · tessella explorer`;
  view.set = settingsOf(offer, view.set);
  [structure, walked, kept, keptAsked, ready, arrived] = [null, null, null, "", "", false];
  leaveCurve();
  for (const room of ["rule", "learned", "change", "path"]) byId(room).replaceChildren();
  build(byId("sliders"), offer, view.set, changeSetting);
  showControls();
  showTab();
  showTheme();
  remember();
  askMap();
  if (view.overlay === "rule") ruleLine.ask({ ...base(), overlay: overlayOf() });
  if (view.overlay === "learned") learnLine.ask({ ...base(), overlay: overlayOf() });
  if (view.overlay === "level") askCurve();
  askLater();
}

// --- controls -----------------------------------------------------------------------------------

function compress() {
  leaveCurve();
  byId("learned").replaceChildren();
  ready = "";
  change({ overlay: "rule" });
  ruleLine.ask({ ...base(), overlay: overlayOf() });
  bringInSight("rule");
}

function trade() {
  leaveCurve();
  for (const room of ["rule", "learned"]) byId(room).replaceChildren();
  ready = "";
  change({ overlay: "level", level: { ...view.level, ...measureNow(), at: 0, ruled: [] } });
  askCurve();
  bringInSight("curve");
}

function askCurve() {
  const { measure, better } = view.level;
  curveLine.ask({ ...base(), measure, better });
}

// Go to a level of the curve; a rule that was found for it comes back.
function follow(at) {
  change({ level: { ...view.level, at } });
  showLevel();
  byId("curve").replaceChildren(tradeoff.picture(curve, at, follow));
  levelRuleLine.drop();
  byId("level-rule").replaceChildren();
  if (view.level.ruled.includes(at)) levelRuleLine.ask({ ...base(), overlay: overlayOf() });
  else overlayMade();
}

function learn() {
  leaveCurve();
  byId("rule").replaceChildren();
  ready = "";
  change({ overlay: "learned" });
  learnLine.ask({ ...base(), overlay: overlayOf() });
  bringInSight("learned");
}

// On a phone what is found would appear below what is in sight.
function bringInSight(room) {
  if (matchMedia("(max-width: 800px)").matches) byId(room).scrollIntoView({ block: "start" });
}

async function take(name) {
  try {
    hand(name, await server.file({ ...base(), overlay: overlayOf(), file: name }));
  } catch (error) {
    tell(server.spoken(error));
  }
}

function hand(name, blob) {
  const link = el("a", { href: URL.createObjectURL(blob), download: name });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 1000);
}

const title = () => [offer.label, ...Object.entries(settingsOf(offer, view.set)).map(([name, value]) => `${name} = ${value}`)].join(", ");

function copied() {
  byId("save").textContent = "Link copied";
  setTimeout(() => (byId("save").textContent = "Save"), 1500);
}

async function save(kind) {
  const options = { ...optionsNow(), ink: inks(false) };
  const [w, h] = [900, sizeOf(drawn)[1] === 1 ? 260 : 640];
  if (kind === "toml") return take("model.toml");
  if (kind === "link") {
    history.replaceState(null, "", location.pathname + written(view));
    return navigator.clipboard.writeText(location.href).then(copied, () => prompt("The address of this view:", location.href));
  }
  if (kind === "svg") {
    const pen = new SvgPen(w, h);
    picture(pen, w, h, drawn, options, title());
    return hand(`${offer.label}.svg`, new Blob([pen.toString()], { type: "image/svg+xml" }));
  }
  const sheet = el("canvas", { width: 2 * w, height: 2 * h });
  const context = sheet.getContext("2d");
  context.scale(2, 2);
  picture(new CanvasPen(context), w, h, drawn, options, title());
  sheet.toBlob((blob) => hand(`${offer.label}.png`, blob));
}

function listen() {
  byId("skip").addEventListener("click", (event) => {
    event.preventDefault(); // the address is the view's
    canvas.focus();
  });
  for (const button of byId("jump").children) button.addEventListener("click", () => byId(button.dataset.to).scrollIntoView({ block: "start" }));
  byId("model").addEventListener("change", (event) => open(event.target.value));
  byId("reset").addEventListener("click", () => {
    build(byId("sliders"), offer, {}, changeSetting);
    change({ set: {} }, { solve: true });
  });
  byId("theme").addEventListener("click", () => change({ theme: dark() ? "light" : "dark" }));
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", showTheme);

  canvas.addEventListener("pointermove", (event) => {
    if (!drawn) return;
    const { left, top } = canvas.getBoundingClientRect();
    const place = placeAt(drawn, canvas.box, event.clientX - left, event.clientY - top);
    if (place && place.join() !== view.cursor?.join()) change({ cursor: place });
  });
  canvas.addEventListener("keydown", (event) => {
    const up = drawn?.down ? -1 : 1;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, up], ArrowDown: [0, -up] }[event.key];
    if (!step || !drawn) return;
    event.preventDefault();
    const size = sizeOf(drawn);
    const from = view.cursor ?? [-step[0], -step[1]];
    change({ cursor: from.map((at, k) => Math.min(Math.max(at + step[k], 0), size[k] - 1)) });
  });

  byId("tabs").addEventListener("keydown", (event) => {
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!by) return;
    const next = TABS[(TABS.indexOf(view.tab) + by + TABS.length) % TABS.length];
    change({ tab: next });
    byId(`tab-${next}`).focus();
  });
  for (const name of TABS) byId(`tab-${name}`).addEventListener("click", () => change({ tab: name }));

  byId("loss-limit").addEventListener("input", (event) => change({ rule: { ...view.rule, loss: LOSS_LIMITS[event.target.value] } }));
  byId("loss-limit").addEventListener("change", () => view.overlay === "rule" && compress());
  byId("worst").addEventListener("change", (event) => change({ rule: { ...view.rule, worst: event.target.checked } }));
  byId("patience").addEventListener("change", (event) => change({ rule: { ...view.rule, seconds: Number(event.target.value) } }));
  byId("compress").addEventListener("click", compress);
  byId("unrule").addEventListener("click", bare);
  byId("unlearn").addEventListener("click", bare);

  byId("measure").addEventListener("change", ({ target }) => {
    const { better } = drawn.model.measures.find((one) => one.name === target.value);
    change({ level: { ...view.level, measure: target.value, better } });
    if (view.overlay === "level") trade();
  });
  byId("better").addEventListener("change", ({ target }) => {
    change({ level: { ...view.level, ...measureNow(), better: target.value } });
    if (view.overlay === "level") trade();
  });
  byId("trade").addEventListener("click", trade);
  byId("unlevel").addEventListener("click", bare);
  byId("level").addEventListener("input", ({ target }) => follow(Number(target.value)));
  byId("level-loss").addEventListener("change", ({ target }) => {
    change({ level: { ...view.level, loss: Number(target.value), ruled: [] } });
    follow(view.level.at);
  });
  byId("level-compress").addEventListener("click", () => {
    change({ level: { ...view.level, ruled: [...new Set([...view.level.ruled, view.level.at])] } });
    follow(view.level.at);
    bringInSight("level-rule");
  });

  byId("learner").addEventListener("change", (event) => change({ learn: { ...view.learn, learner: event.target.value } }));
  byId("samples").addEventListener("input", (event) => change({ learn: { ...view.learn, samples: SAMPLES[event.target.value] } }));
  byId("noise").addEventListener("input", (event) => change({ learn: { ...view.learn, noise: Number(event.target.value) } }));
  byId("seed").addEventListener("change", (event) => change({ learn: { ...view.learn, seed: Number(event.target.value) } }));
  byId("learn").addEventListener("click", learn);

  byId("pin").addEventListener("click", () => {
    const overlay = overlaid() ? overlayOf() : null;
    change({ pin: { settings: settingsOf(offer, view.set), overlay, name: policyName(overlay) } });
    askMap();
    askChange();
  });
  byId("unpin").addEventListener("click", () => {
    [kept, keptAsked] = [null, ""];
    change({ pin: null });
    byId("change").replaceChildren();
    render();
  });

  byId("periods").addEventListener("input", (event) => change({ path: { ...view.path, periods: Number(event.target.value) } }));
  byId("path-seed").addEventListener("change", (event) => change({ path: { ...view.path, seed: Number(event.target.value) } }));
  byId("from-here").addEventListener("change", (event) => change({ path: { ...view.path, start: event.target.checked ? stateHere() : null } }));
  byId("walk").addEventListener("click", () => {
    change({ path: { ...view.path, on: true, start: view.path.start === null ? null : stateHere() } });
    askPath();
  });
  byId("unwalk").addEventListener("click", () => {
    walked = null;
    change({ path: { ...view.path, on: false } });
    byId("path").replaceChildren();
    render();
  });

  const menu = (on) => {
    byId("saves").hidden = !on;
    byId("save").setAttribute("aria-expanded", on);
  };
  byId("save").addEventListener("click", () => menu(byId("saves").hidden));
  document.addEventListener("click", (event) => event.target.closest(".menu") || menu(false));
  document.addEventListener("keydown", (event) => event.key === "Escape" && menu(false));
  for (const button of byId("saves").children)
    button.addEventListener("click", () => {
      menu(false);
      byId("save").focus();
      if (drawn) save(button.dataset.save);
    });

  new ResizeObserver(() => render()).observe(byId("maps"));
  addEventListener("hashchange", () => {
    if (location.hash === written(view)) return;
    view = read(location.hash);
    begin();
  });
}

// The number of the state under the cursor, in the order of the grid.
function stateHere() {
  const [i, j] = view.cursor ?? [0, 0];
  return drawn.model.axes.reduce((state, axis) => {
    const at = drawn.shown.indexOf(axis.name);
    return state * axis.values.length + (at === 0 ? i : at === 1 ? j : drawn.at[axis.name]);
  }, 0);
}

async function start() {
  listen();
  showTheme();
  byId("busy").hidden = false;
  try {
    offers = (await server.problems()).problems;
  } catch (error) {
    tell(server.spoken(error));
    return;
  }
  const groups = new Map();
  for (const one of offers) {
    if (!groups.has(one.group)) groups.set(one.group, el("optgroup", { label: one.group }));
    groups.get(one.group).append(el("option", { value: one.name }, one.label));
  }
  byId("model").append(...groups.values());
  begin();
}

start();
