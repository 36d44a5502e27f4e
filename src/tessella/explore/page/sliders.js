// A slider for each parameter, from the problem's record; a box beside it takes any value of the range.

import { el } from "./elements.js";

const NOISE = "observation_noise"; // of samples: it stands where policies are learned

export function coerced(parameter, value) {
  if (parameter.kind === "choice") return String(value);
  if (parameter.kind === "integers" || parameter.kind === "numbers")
    return (Array.isArray(value) ? value : String(value).split(",")).map(Number);
  return Number(value);
}

// Settings of an address that are no values of their parameters: [name, text].
export function badNumbers(offer, set) {
  const named = new Map(offer.parameters.map((parameter) => [parameter.name, parameter]));
  return Object.entries(set).filter(([name, said]) => named.has(name) && [coerced(named.get(name), said)].flat().some(Number.isNaN));
}

export function settingsOf(offer, set) {
  const chosen = {};
  for (const parameter of offer.parameters) {
    if (!(parameter.name in set)) continue;
    const value = coerced(parameter, set[parameter.name]);
    if (JSON.stringify(value) !== JSON.stringify(parameter.default)) chosen[parameter.name] = value;
  }
  return chosen;
}

// Fills `room` with the controls of an offer; changed(name, value) is called as they move. What only
// changes numbers comes first: it is solved again at once. What changes the grid may compile for a while.
export function build(room, offer, set, changed) {
  const shown = offer.parameters.filter((parameter) => parameter.name !== NOISE);
  const made = (some) => some.map((parameter) => control(parameter, set[parameter.name] ?? parameter.default, changed));
  const sizes = shown.filter((parameter) => parameter.kind.startsWith("integer"));
  const others = shown.filter((parameter) => !sizes.includes(parameter));
  room.replaceChildren(...made(others));
  if (sizes.length)
    room.append(el("details", { class: "sizes", open: !others.length || sizes.some((one) => one.name in set) }, el("summary", {}, "Sizes and actions"), el("div", {}, made(sizes))));
  if (!shown.length) room.append(el("p", { class: "soft" }, "This model has no parameters to set."));
}

function control(parameter, value, changed) {
  const id = `set-${parameter.name}`;
  const tell = (now) => changed(parameter.name, now);
  const label = el("label", { htmlFor: id }, parameter.name.replaceAll("_", " "));
  const about = el("p", { class: "about", id: `${id}-about` }, parameter.about);
  if (parameter.kind === "choice") {
    const picked = el("select", { id, onchange: (event) => tell(event.target.value) });
    for (const option of parameter.options) picked.append(el("option", { value: option }, option));
    picked.value = value;
    return el("div", { class: "setting" }, el("div", { class: "row" }, label, picked), about);
  }
  if (parameter.kind === "integers" || parameter.kind === "numbers") {
    const box = el("input", { id, type: "text", value: [].concat(value).join(", "), spellcheck: false, "aria-describedby": `${id}-about` });
    box.addEventListener("change", () => tell(box.value.split(",").map((part) => Number(part.trim()))));
    return el("div", { class: "setting" }, el("div", { class: "row" }, label, box), about);
  }
  return slider(parameter, value, tell, label, about, id);
}

function slider(parameter, value, tell, label, about, id) {
  const whole = parameter.kind === "integer";
  const box = el("input", { type: "number", class: "value", value: +Number(value).toPrecision(6), step: whole ? 1 : "any", "aria-label": `${parameter.name}, exactly`, title: parameter.range });
  const range = el("input", { id, type: "range", min: parameter.low, max: parameter.high, step: parameter.step, "aria-describedby": `${id}-about` });
  range.value = value;
  const moved = () => {
    box.value = +Number(range.value).toPrecision(10);
  };
  range.addEventListener("input", () => {
    moved();
    if (!whole) tell(Number(box.value)); // a whole number changes the grid, which may compile: when let go
  });
  range.addEventListener("change", () => {
    moved();
    if (whole) tell(Number(box.value));
  });
  box.addEventListener("change", () => {
    if (box.value === "") box.value = parameter.default;
    range.value = box.value;
    tell(Number(box.value));
  });
  return el("div", { class: "setting" }, el("div", { class: "row" }, label, box), range, about);
}
