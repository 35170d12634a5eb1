"use strict";
// The map on its canvas: where points are, how they look, which labels have room.

function makeScene(canvas, data) {
  const count = data.words.length, space = data.dims === 3;
  const context = canvas.getContext("2d");
  const view = { x: 0, y: 0, zoom: 1, yaw: 0.6, pitch: 0.3 };
  const at = new Float32Array(2 * count), depth = new Float32Array(count), near = new Float32Array(count);
  const widths = new Map();
  const state = { selected: -1, hovered: -1, bright: new Set(), named: [] };
  const ends = [...new Set(data.arrows.flat())];
  let width = 1, height = 1, unit = 1, colors = {}, sprites = [], asked = 0, rows = new Map(), rough = false, settle = 0, journey = 0;

  function resize() {
    const ratio = window.devicePixelRatio || 1;
    width = Math.max(1, canvas.clientWidth);
    height = Math.max(1, canvas.clientHeight);
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    unit = space ? 0.46 * Math.min(width, height)
      : Math.min((width / 2 - 70) / data.half[0], (height / 2 - 40) / data.half[1]);
    unit = Math.max(unit, 1);
    restyle();
  }

  function restyle() {
    const style = getComputedStyle(document.documentElement);
    const color = (name) => style.getPropertyValue(name).trim();
    for (const name of ["ground", "ink", "faint", "line", "none", "accent", "arrow"]) colors[name] = color("--" + name);
    for (let i = 0; i < 8; i++) colors[i] = color("--c" + i);
    colors[8] = colors.none;
    sprites = [...Array(9).keys()].map((i) => sprite(colors[i]));
    draw();
  }

  function radius() {
    const base = Math.max(1.8, 5.2 - 0.9 * Math.log10(count));
    return base * Math.min(1.8, Math.max(0.8, Math.pow(view.zoom, 0.2)));
  }

  function sprite(color) { // drawing an image is much faster than a path for each of 10,000 points
    const made = document.createElement("canvas");
    const size = Math.max(8, Math.ceil(3 * radius() * (window.devicePixelRatio || 1)));
    made.width = made.height = size;
    const pen = made.getContext("2d");
    pen.fillStyle = color;
    pen.beginPath();
    pen.arc(size / 2, size / 2, size / 2 - 1, 0, 2 * Math.PI);
    pen.fill();
    return made;
  }

  function project(x, y, z) {
    const scale = unit * view.zoom;
    if (!space) return [width / 2 + (x - view.x) * scale, height / 2 - (y - view.y) * scale, 0, 1];
    const cy = Math.cos(view.yaw), sy = Math.sin(view.yaw), cp = Math.cos(view.pitch), sp = Math.sin(view.pitch);
    const across = cy * x + sy * z, away = cy * z - sy * x;
    const up = cp * y - sp * away, front = sp * y + cp * away;
    const nearer = 4 / (4 - front); // a little perspective
    return [width / 2 + (across * nearer - view.x) * scale, height / 2 - (up * nearer - view.y) * scale, front, nearer];
  }

  function place() {
    const c = data.coordinates, step = data.dims;
    for (let i = 0; i < count; i++) {
      const [x, y, front, nearer] = project(c[step * i], c[step * i + 1], space ? c[step * i + 2] : 0);
      at[2 * i] = x;
      at[2 * i + 1] = y;
      depth[i] = front;
      near[i] = nearer;
    }
  }

  function backToFront() {
    if (!space) return null;
    const bins = Array.from({ length: 64 }, () => []);
    for (let i = 0; i < count; i++) bins[Math.max(0, Math.min(63, Math.floor((depth[i] + 1.8) * 17.7)))].push(i);
    return bins.flat();
  }

  const visible = (i) => at[2 * i] > -20 && at[2 * i] < width + 20 && at[2 * i + 1] > -20 && at[2 * i + 1] < height + 20;

  function draw() {
    if (!asked) asked = requestAnimationFrame(() => { asked = 0; paint(); });
  }

  function moved() { // many points are squares while the map moves, and dots again when it rests
    rough = count > 2000;
    clearTimeout(settle);
    settle = rough ? setTimeout(() => { rough = false; draw(); }, 150) : 0;
    draw();
  }

  function paint() {
    place();
    rows = new Map();
    context.fillStyle = colors.ground;
    context.fillRect(0, 0, width, height);
    axes();
    points();
    data.arrows.forEach(([from, to]) => arrow(from, to));
    ring(state.selected, 3.5, 2.2);
    if (state.hovered !== state.selected) ring(state.hovered, 2.5, 1.5);
    labels();
  }

  function axes() {
    if (!data.axes.length) return;
    context.strokeStyle = colors.line;
    context.fillStyle = colors.faint;
    context.font = "12px system-ui, 'DejaVu Sans', sans-serif";
    context.lineWidth = 1;
    data.axes.forEach((name, i) => {
      const low = [...data.origin], high = [...data.origin];
      low[i] = -data.half[i] * 1.05;
      high[i] = data.half[i] * 1.05;
      const a = project(low[0], low[1], low[2] || 0), b = project(high[0], high[1], high[2] || 0);
      context.beginPath();
      context.moveTo(a[0], a[1]);
      context.lineTo(b[0], b[1]);
      context.stroke();
      const wide = context.measureText(name).width, shift = space || i === 0 ? -wide : 6;
      const x = Math.max(8, Math.min(b[0] + shift, width - 8 - wide)), y = Math.max(16, Math.min(b[1] - 8, height - 8));
      room(x, y - 4, wide); // words stand elsewhere
      context.fillText(name, x, y);
    });
  }

  function points() {
    const r = radius(), faded = state.bright.size > 0, order = backToFront();
    const solid = Math.max(0.4, Math.min(0.85, (0.85 * Math.pow(view.zoom, 0.4) * 20) / Math.sqrt(count)));
    context.imageSmoothingQuality = "medium";
    let last = -1;
    const one = (i) => {
      if (!visible(i)) return;
      const size = 2 * r * near[i];
      const haze = space ? Math.max(0.25, Math.min(1, solid * (0.85 + 0.4 * depth[i]))) : solid;
      context.globalAlpha = faded && !state.bright.has(i) ? 0.22 : haze;
      const color = data.colors ? data.colors[i] : 0, x = at[2 * i] - size / 2, y = at[2 * i + 1] - size / 2;
      if (rough) {
        if (color !== last) context.fillStyle = colors[last = color];
        context.fillRect(x, y, 0.9 * size, 0.9 * size);
      } else context.drawImage(sprites[color], x, y, size, size);
    };
    for (let j = 0; j < count; j++) {
      const i = order ? order[j] : j;
      if (!faded || !state.bright.has(i)) one(i);
    }
    if (faded) {
      for (const i of state.bright) one(i);
      context.globalAlpha = 1;
      if (state.bright.size < 400) for (const i of state.bright) ring(i, 1.5, 1);
    }
    context.globalAlpha = 1;
  }

  function ring(i, gap, thick) {
    if (i < 0) return;
    context.strokeStyle = colors.accent;
    context.lineWidth = thick;
    context.beginPath();
    context.arc(at[2 * i], at[2 * i + 1], radius() * near[i] + gap, 0, 2 * Math.PI);
    context.stroke();
  }

  function arrow(from, to) {
    const dx = at[2 * to] - at[2 * from], dy = at[2 * to + 1] - at[2 * from + 1], length = Math.hypot(dx, dy);
    const r = radius() + 3;
    if (length < 2 * r + 8) return;
    const ux = dx / length, uy = dy / length;
    const x = at[2 * to] - ux * r, y = at[2 * to + 1] - uy * r;
    context.strokeStyle = context.fillStyle = colors.arrow;
    context.lineWidth = 1.5;
    context.beginPath();
    context.moveTo(at[2 * from] + ux * r, at[2 * from + 1] + uy * r);
    context.lineTo(x - ux * 6, y - uy * 6);
    context.stroke();
    context.beginPath();
    context.moveTo(x, y);
    context.lineTo(x - ux * 9 - uy * 4, y - uy * 9 + ux * 4);
    context.lineTo(x - ux * 9 + uy * 4, y - uy * 9 - ux * 4);
    context.fill();
  }

  // Labels go right of their points, else left, above or below, in order of importance, where no label is yet.
  function labels() {
    const others = state.bright.size ? [] : ends;
    const first = [state.selected, state.hovered, ...state.named, ...others].filter((i) => i >= 0);
    const done = new Set(first), most = Math.min(400, 20 + (width * height) / 3600), r = radius();
    const aims = new Map(); // to which side arrows lead from, or come to, a word: its label goes to the other
    for (const [a, b] of data.arrows) {
      aims.set(a, (aims.get(a) || 0) + at[2 * b] - at[2 * a]);
      aims.set(b, (aims.get(b) || 0) + at[2 * a] - at[2 * b]);
    }
    let shown = 0;
    const label = (i, strong) => {
      if (!visible(i)) return;
      const font = `${strong ? "600 13.5px" : "12px"} system-ui, 'DejaVu Sans', sans-serif`;
      const wide = measure(i, font), x = at[2 * i], y = at[2 * i + 1], gap = r * near[i] + (i === state.selected ? 8 : state.bright.has(i) ? 6 : 4);
      const sides = [[x + gap, y], [x - gap - wide, y], [x - wide / 2, y - gap - 6], [x - wide / 2, y + gap + 6]];
      if (aims.get(i) > 0) sides.unshift(sides.splice(1, 1)[0]);
      for (const [left, middle] of sides) {
        if (left < 2 || left + wide > width - 2 || !room(left, middle, wide)) continue;
        context.font = font;
        context.globalAlpha = !strong && state.bright.size && !state.bright.has(i) ? 0.35 : 1;
        context.strokeStyle = colors.ground;
        context.lineWidth = 3;
        context.strokeText(data.shown[i], left, middle);
        context.fillStyle = i === state.selected ? colors.accent : colors.ink;
        context.fillText(data.shown[i], left, middle);
        shown++;
        return;
      }
    };
    context.textBaseline = "middle";
    context.lineJoin = "round";
    context.direction = "ltr"; // where labels stand; words are set in the direction of their letters
    [...new Set(first)].slice(0, 200).forEach((i) => label(i, true));
    for (let i = 0; i < count && shown < most; i++) if (!done.has(i)) label(i, false);
    context.globalAlpha = 1;
    context.textBaseline = "alphabetic";
  }

  function measure(i, font) {
    const key = (font[0] === "6" ? "b" : "n") + i;
    if (!widths.has(key)) {
      context.font = font;
      widths.set(key, context.measureText(data.shown[i]).width);
    }
    return widths.get(key);
  }

  function room(left, middle, wide) {
    const row = Math.floor(middle / 16);
    for (let k = row - 1; k <= row + 1; k++) {
      for (const [l, m, w] of rows.get(k) || []) {
        if (Math.abs(m - middle) < 15 && left < l + w + 6 && l < left + wide + 6) return false;
      }
    }
    if (!rows.has(row)) rows.set(row, []);
    rows.get(row).push([left, middle, wide]);
    return true;
  }

  function hit(x, y) {
    let best = -1, least = 14 * 14;
    for (let i = 0; i < count; i++) {
      const d = (at[2 * i] - x) ** 2 + (at[2 * i + 1] - y) ** 2;
      if (d < least) { best = i; least = d; }
    }
    return best;
  }

  function zoom(factor, x = width / 2, y = height / 2) {
    journey++;
    const next = Math.max(0.3, Math.min(200, view.zoom * factor)), scale = unit * view.zoom, after = unit * next;
    view.x += (x - width / 2) * (1 / scale - 1 / after);
    view.y -= (y - height / 2) * (1 / scale - 1 / after);
    view.zoom = next;
    moved();
  }

  function pan(dx, dy) {
    journey++; // what the user does ends a move to a word
    shift(dx, dy);
  }

  function shift(dx, dy) {
    view.x -= dx / (unit * view.zoom);
    view.y += dy / (unit * view.zoom);
    moved();
  }

  function turn(dx, dy) {
    journey++;
    view.yaw += dx * 0.008;
    view.pitch = Math.max(-1.5, Math.min(1.5, view.pitch + dy * 0.008));
    moved();
  }

  function reset() {
    journey++;
    Object.assign(view, { x: 0, y: 0, zoom: 1, yaw: 0.6, pitch: 0.3 });
    draw();
  }

  function reveal(i) { // move a word that is outside, or near the edge, to the middle
    place();
    const x = at[2 * i], y = at[2 * i + 1];
    if (x > 60 && x < width - 90 && y > 40 && y < height - 40) return draw();
    const dx = width / 2 - x, dy = height / 2 - y, start = performance.now(), mine = ++journey;
    let done = 0;
    const step = (now) => {
      if (mine !== journey) return;
      const t = Math.min(1, Math.max(0, (now - start) / 250)), eased = t * (2 - t);
      shift(dx * (eased - done), dy * (eased - done));
      done = eased;
      if (t < 1) requestAnimationFrame(step);
    };
    if (matchMedia("(prefers-reduced-motion: reduce)").matches) shift(dx, dy);
    else requestAnimationFrame(step);
  }

  return { state, space, draw, paint, resize, restyle, hit, zoom, pan, turn, reset, reveal, colors };
}
