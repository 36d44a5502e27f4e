// Two pens that draw the same scene: on a canvas, and as the text of an SVG file.

const FONT = "system-ui, -apple-system, 'Segoe UI', sans-serif";

export class CanvasPen {
  constructor(context) {
    this.c = context;
  }

  cells({ x, y, w, h }, nx, ny, paint) {
    const image = new ImageData(nx, ny);
    for (let i = 0; i < nx; i++)
      for (let j = 0; j < ny; j++) {
        const [r, g, b] = paint(i, j);
        const at = 4 * ((ny - 1 - j) * nx + i);
        image.data[at] = r;
        image.data[at + 1] = g;
        image.data[at + 2] = b;
        image.data[at + 3] = 255;
      }
    const small = document.createElement("canvas");
    small.width = nx;
    small.height = ny;
    small.getContext("2d").putImageData(image, 0, 0);
    this.c.imageSmoothingEnabled = false;
    this.c.drawImage(small, x, y, w, h);
  }

  lines(segments, colour, width, dash = []) {
    const c = this.c;
    c.save();
    c.beginPath();
    for (const [a, b, x, y] of segments) {
      c.moveTo(a, b);
      c.lineTo(x, y);
    }
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.lineCap = "square";
    c.setLineDash(dash);
    c.stroke();
    c.restore();
  }

  way(points, colour, width) {
    const c = this.c;
    c.save();
    c.beginPath();
    points.forEach(([x, y], k) => (k ? c.lineTo(x, y) : c.moveTo(x, y)));
    c.strokeStyle = colour;
    c.lineWidth = width;
    c.lineJoin = c.lineCap = "round";
    c.stroke();
    c.restore();
  }

  rect(x, y, w, h, { fill, line, width = 1 }) {
    if (fill) {
      this.c.fillStyle = fill;
      this.c.fillRect(x, y, w, h);
    }
    if (line) {
      this.c.strokeStyle = line;
      this.c.lineWidth = width;
      this.c.strokeRect(x, y, w, h);
    }
  }

  dot(x, y, r, fill, line) {
    this.c.beginPath();
    this.c.arc(x, y, r, 0, 2 * Math.PI);
    this.c.fillStyle = fill;
    this.c.fill();
    if (line) {
      this.c.strokeStyle = line;
      this.c.lineWidth = 1;
      this.c.stroke();
    }
  }

  text(x, y, said, { colour, size = 12, align = "center", bold = false, turn = false }) {
    const c = this.c;
    c.save();
    c.translate(x, y);
    if (turn) c.rotate(-Math.PI / 2);
    c.fillStyle = colour;
    c.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
    c.textAlign = align;
    c.textBaseline = "middle";
    c.fillText(said, 0, 0);
    c.restore();
  }
}

export class SvgPen {
  constructor(width, height) {
    this.size = [width, height];
    this.parts = [];
  }

  cells({ x, y, w, h }, nx, ny, paint) {
    const [dx, dy] = [w / nx, h / ny];
    for (let i = 0; i < nx; i++) {
      let first = 0;
      for (let j = 1; j <= ny; j++) {
        const colour = hex(paint(i, first));
        if (j < ny && hex(paint(i, j)) === colour) continue;
        this.rect(x + i * dx, y + h - j * dy, dx + 0.2, (j - first) * dy + 0.2, { fill: colour });
        first = j;
      }
    }
  }

  lines(segments, colour, width, dash = []) {
    if (!segments.length) return;
    const d = segments.map(([a, b, x, y]) => `M${n(a)} ${n(b)}L${n(x)} ${n(y)}`).join("");
    const dashed = dash.length ? ` stroke-dasharray="${dash.join(" ")}"` : "";
    this.parts.push(`<path d="${d}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linecap="square"${dashed}/>`);
  }

  way(points, colour, width) {
    const d = points.map(([x, y]) => `${n(x)},${n(y)}`).join(" ");
    this.parts.push(`<polyline points="${d}" fill="none" stroke="${colour}" stroke-width="${width}" stroke-linejoin="round"/>`);
  }

  rect(x, y, w, h, { fill = "none", line, width = 1 }) {
    const stroke = line ? ` stroke="${line}" stroke-width="${width}"` : "";
    this.parts.push(`<rect x="${n(x)}" y="${n(y)}" width="${n(w)}" height="${n(h)}" fill="${fill}"${stroke}/>`);
  }

  dot(x, y, r, fill, line) {
    const stroke = line ? ` stroke="${line}"` : "";
    this.parts.push(`<circle cx="${n(x)}" cy="${n(y)}" r="${r}" fill="${fill}"${stroke}/>`);
  }

  text(x, y, said, { colour, size = 12, align = "center", bold = false, turn = false }) {
    const anchor = { center: "middle", left: "start", right: "end" }[align];
    const turned = turn ? ` transform="rotate(-90 ${n(x)} ${n(y)})"` : "";
    const weight = bold ? ' font-weight="600"' : "";
    this.parts.push(`<text x="${n(x)}" y="${n(y)}" fill="${colour}" font-size="${size}" text-anchor="${anchor}" dominant-baseline="central"${weight}${turned}>${escaped(said)}</text>`);
  }

  toString() {
    const [w, h] = this.size;
    return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${w} ${h}" width="${w}" height="${h}" font-family="${FONT}">\n${this.parts.join("\n")}\n</svg>\n`;
  }
}

const n = (value) => +value.toFixed(2);
const hex = ([r, g, b]) => "#" + ((1 << 24) | (r << 16) | (g << 8) | b).toString(16).slice(1);
const escaped = (text) => String(text).replace(/[&<>"]/g, (c) => ({ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;" })[c]);
