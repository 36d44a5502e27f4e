// Colours of quantities: matplotlib's cividis and inferno at 17 places, for every reader and in grey.

export const CIVIDIS = ["#00224e", "#002e6a", "#1a386f", "#32436d", "#434e6c", "#535a6d", "#61656f", "#6f7073", "#7d7c78", "#8c8878", "#9b9476", "#aba072", "#bcae6c", "#cdbb63", "#dec958", "#f0d846", "#fee838"];
export const INFERNO = ["#000004", "#0b0724", "#210c4a", "#3d0965", "#57106e", "#71196e", "#8a226a", "#a32c61", "#bc3754", "#d24644", "#e45a31", "#f1731d", "#f98e09", "#fcac11", "#f9cb35", "#f2ea69", "#fcffa4"];
const ALONE = "#d9d9d9"; // one action only: there is no margin

export const KINDS = {
  action: { label: "Action" },
  value: { label: "Value", ramp: CIVIDIS, scale: "linear" },
  margin: { label: "Margin", ramp: INFERNO, scale: "log" },
  visits: { label: "Visits", ramp: CIVIDIS, scale: "log" },
  loss: { label: "Loss", ramp: CIVIDIS, scale: "linear", over: true },
  local: { label: "Local loss", ramp: CIVIDIS, scale: "linear", over: true }, // over: of a policy that lies over the map
};
const DECADES = 3; // of a logarithmic scale; what is smaller is as good as nothing to the eye

export function rgb(hex) {
  const n = parseInt(hex.slice(1), 16);
  return [n >> 16, (n >> 8) & 255, n & 255];
}

function mixed(ramp, share) {
  const place = Math.min(Math.max(share, 0), 1) * (ramp.length - 1);
  const low = Math.min(Math.floor(place), ramp.length - 2);
  const [a, b] = [rgb(ramp[low]), rgb(ramp[low + 1])];
  return a.map((part, k) => Math.round(part + (b[k] - part) * (place - low)));
}

// From a place (i, j) of a view to red, green and blue; actions are those of `table`.
export function painter(view, kind, table) {
  if (kind === "action" || !view.fields[kind]) {
    const palette = view.colours.map(rgb);
    return (i, j) => palette[table[i][j]];
  }
  const share = scaled(view.ranges[kind], KINDS[kind].scale);
  const field = view.fields[kind];
  return (i, j) => (field[i][j] === null ? rgb(ALONE) : mixed(KINDS[kind].ramp, share(field[i][j])));
}

export function ends([low, high], scale) {
  return scale === "log" && high > 0 ? [Math.max(low, high / 10 ** DECADES), high] : [low, high];
}

function scaled(range, scale) {
  const [low, high] = ends(range, scale);
  if (high <= low) return () => 0.5;
  if (scale !== "log" || high <= 0) return (v) => (v - low) / (high - low);
  return (v) => (v <= low ? 0 : Math.log(v / low) / Math.log(high / low));
}
