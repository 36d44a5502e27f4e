// What is shown, held in the address: a link is a view.

const PLAIN = { model: "", colour: "action", x: "", y: "", tab: "facts", overlay: "none", theme: "" };
const RULE = { loss: 0.01, worst: false, seconds: 10 };
const LEARN = { learner: "linear", samples: 400, noise: null, seed: 0 };
const LEVEL = { measure: "", better: "", at: 0, ruled: [], loss: 0.02 }; // ruled: the levels that a rule was found for
const PATH = { on: false, periods: 60, seed: 0, start: null };

export function fresh() {
  return { ...PLAIN, set: {}, at: {}, cursor: null, rule: { ...RULE }, learn: { ...LEARN }, level: { ...LEVEL }, path: { ...PATH }, pin: null };
}

const GROUPS = { rule: RULE, learn: LEARN, level: LEVEL, path: PATH };

export function written(view) {
  const parts = new URLSearchParams();
  for (const [key, usual] of Object.entries(PLAIN)) if (view[key] !== usual) parts.set(key, view[key]);
  for (const [name, value] of Object.entries(view.set)) parts.set(`set.${name}`, said(value));
  for (const [name, place] of Object.entries(view.at)) if (place) parts.set(`at.${name}`, place);
  if (view.cursor) parts.set("cursor", view.cursor.join(","));
  for (const [group, usual] of Object.entries(GROUPS))
    for (const [key, value] of Object.entries(view[group]))
      if (JSON.stringify(value) !== JSON.stringify(usual[key])) parts.set(`${group}.${key}`, JSON.stringify(value));
  if (view.pin) parts.set("pin", JSON.stringify(view.pin));
  return "#" + parts.toString();
}

export function read(hash) {
  const view = fresh();
  for (const [key, value] of new URLSearchParams(hash.replace(/^[#?]/, ""))) {
    const [group, name] = split(key);
    if (name === undefined) {
      if (key in PLAIN) view[key] = value;
      else if (key === "cursor") view.cursor = whole(value.split(","));
      else if (key === "pin") view.pin = pinned(value);
    } else if (group === "set") view.set[name] = value;
    else if (group === "at") view.at[name] = Math.max(0, Math.trunc(Number(value)) || 0);
    else if (group in GROUPS && name in GROUPS[group]) {
      const found = parsed(value);
      if (found !== undefined) view[group][name] = found;
    }
  }
  return view;
}

function split(key) {
  const dot = key.indexOf(".");
  return dot < 0 ? [key, undefined] : [key.slice(0, dot), key.slice(dot + 1)];
}

function said(value) {
  return Array.isArray(value) ? value.join(",") : String(value);
}

function whole(parts) {
  const found = parts.map((part) => Math.max(0, Math.trunc(Number(part)) || 0));
  return found.length === 2 ? found : null;
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

function pinned(text) {
  const found = parsed(text);
  return found && typeof found === "object" && found.settings ? found : null;
}
