"use strict";
// Attention of lines: a small picture for each head, and the chosen one large, as lines between words or as a heat map.

(() => {
  const $ = (id) => document.getElementById(id), SVG = "http://www.w3.org/2000/svg";
  const data = JSON.parse($("data").textContent), FAINTEST = 0.01, MANY = 60;
  const state = { line: 0, layer: 0, head: 0, mean: true, view: "lines", over: null, kept: null };
  let line, weights, cells = [];

  const shown = (word) => {
    const plain = word.replace(/\s/g, " ").replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd"); // no turned letters
    return plain.length > 24 ? plain.slice(0, 23) + "\u2026" : plain || "(empty)";
  };
  const make = (name, attributes = {}, text = "") => {
    const element = document.createElementNS(SVG, name);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    if (text) element.textContent = text;
    return element;
  };
  const color = (share) => [255 - 255 * share, 255 - 141 * share, 255 - 77 * share].map(Math.round); // white to blue

  function open(number) {
    line = data[number];
    Object.assign(state, { line: number, layer: 0, head: 0, mean: true, over: null, kept: null });
    const bytes = Uint8Array.from(atob(line.weights), (c) => c.charCodeAt(0));
    const all = new Uint16Array(bytes.length / 2);
    for (let i = 0; i < all.length; i++) all[i] = bytes[2 * i] | (bytes[2 * i + 1] << 8);
    line.all = all;
    $("note").textContent = [line.part && `${line.part} attention`, `${line.queries.length} words`,
      line.mean && "mean of the chosen layers and heads"].filter(Boolean).join(", ");
    $("mean").hidden = line.layers.length * line.heads.length === 1;
    grid();
    choose();
  }

  // -- which weights ---------------------------------------------------------------------------------------------------

  const part = (layer, head) => {
    const size = line.queries.length * line.keys.length, begin = (layer * line.heads.length + head) * size;
    return line.all.subarray(begin, begin + size);
  };

  function choose() {
    const size = line.queries.length * line.keys.length, count = line.layers.length * line.heads.length;
    weights = new Float32Array(size);
    if (state.mean) for (let i = 0; i < line.all.length; i++) weights[i % size] += line.all[i] / 65535 / count;
    else part(state.layer, state.head).forEach((value, i) => { weights[i] = value / 65535; });
    for (const [button, layer, head] of cells) button.setAttribute("aria-pressed", !state.mean && layer === state.layer && head === state.head);
    $("mean").setAttribute("aria-pressed", state.mean);
    draw();
  }

  function paint(values, most) {
    const canvas = document.createElement("canvas"), [Q, K] = [line.queries.length, line.keys.length];
    [canvas.width, canvas.height] = [K, Q];
    const image = new ImageData(K, Q);
    for (let i = 0; i < Q * K; i++) image.data.set([...color(Math.sqrt(values[i] / most)), 255], 4 * i);
    canvas.getContext("2d").putImageData(image, 0, 0);
    return canvas;
  }

  function grid() {
    const box = $("heads"), edge = Math.max(22, Math.min(64, Math.floor(480 / line.heads.length)));
    box.replaceChildren();
    box.style.gridTemplateColumns = `auto repeat(${line.heads.length}, ${edge}px)`;
    const label = (text) => { const span = document.createElement("span"); span.textContent = text; box.append(span); };
    label("");
    line.heads.forEach((head) => label(line.mean ? "mean" : head));
    cells = [];
    line.layers.forEach((layer, l) => {
      label(line.mean ? "" : layer);
      line.heads.forEach((head, h) => {
        const button = document.createElement("button");
        button.type = "button";
        button.title = line.mean ? "mean" : `layer ${layer}, head ${head}`;
        button.setAttribute("aria-label", button.title);
        button.style.width = button.style.height = `${edge}px`;
        button.append(paint(part(l, h), 65535));
        button.addEventListener("click", () => { Object.assign(state, { layer: l, head: h, mean: false }); choose(); });
        box.append(button);
        cells.push([button, l, h]);
      });
    });
  }

  // -- the large picture -----------------------------------------------------------------------------------------------

  function draw() {
    for (const view of ["lines", "heat"]) $(view).setAttribute("aria-pressed", state.view === view);
    $("picture").replaceChildren(state.view === "lines" ? lines() : heat());
    tell();
  }

  function tell() {
    const at = state.over || state.kept, where = line.mean || state.mean ? "mean" : `layer ${line.layers[state.layer]}, head ${line.heads[state.head]}`;
    let text = where;
    if (at) {
      const K = line.keys.length, own = at.side === "query" ? line.keys : line.queries;
      const of = (i) => (at.side === "query" ? weights[at.place * K + i] : weights[i * K + at.place]);
      const best = own.map((_, i) => i).sort((a, b) => of(b) - of(a)).slice(0, 6);
      text += `: ${shown(at.side === "query" ? line.queries[at.place] : line.keys[at.place])} `;
      text += at.side === "query" ? "attends to " : "is attended to by ";
      text += best.map((i) => `${shown(own[i])} ${of(i).toFixed(3)}`).join(", ");
    }
    $("chosen").textContent = text;
  }

  function word(text, side, place, attributes) {
    const element = make("text", { "dominant-baseline": "central", ...attributes }, shown(text)), at = { side, place };
    const same = (other) => other && other.side === side && other.place === place;
    if (same(state.kept)) element.classList.add("on");
    element.addEventListener("mouseenter", () => { state.over = at; light(); });
    element.addEventListener("mouseleave", () => { state.over = null; light(); });
    element.addEventListener("click", () => { state.kept = same(state.kept) ? null : at; state.over = null; draw(); });
    return element;
  }

  const width = (words) => 9 * Math.max(...words.map((text) => [...shown(text)].length)) + 12;
  let light = () => {};

  function lines() {
    const [Q, K] = [line.queries.length, line.keys.length], step = 22, left = width(line.queries), between = 260;
    const svg = make("svg", { width: left + between + width(line.keys), height: Math.max(Q, K) * step });
    const most = Math.max(...weights), all = make("g");
    svg.append(all);
    light = () => {
      const at = state.over || state.kept;
      all.replaceChildren();
      for (let q = 0; q < Q; q++) for (let k = 0; k < K; k++) {
        if (at ? (at.side === "query" ? q : k) !== at.place : Math.max(Q, K) > MANY && weights[q * K + k] < 0.1) continue;
        if (weights[q * K + k] < FAINTEST) continue;
        const share = Math.sqrt(weights[q * K + k] / most);
        all.append(make("line", { x1: left, x2: left + between, y1: (q + 0.5) * step, y2: (k + 0.5) * step,
          stroke: "#0072b2", "stroke-width": 0.6 + 3.4 * share, "stroke-opacity": 0.05 + 0.9 * share * share }));
      }
      tell();
    };
    line.queries.forEach((text, i) => svg.append(word(text, "query", i, { x: left - 8, y: (i + 0.5) * step, "text-anchor": "end" })));
    line.keys.forEach((text, i) => svg.append(word(text, "key", i, { x: left + between + 8, y: (i + 0.5) * step })));
    light();
    return svg;
  }

  function heat() {
    const [Q, K] = [line.queries.length, line.keys.length], step = 22, left = width(line.queries), top = width(line.keys);
    const svg = make("svg", { width: left + K * step + 10, height: top + Q * step + 10 }), most = Math.max(...weights);
    svg.append(make("rect", { x: left, y: top, width: K * step, height: Q * step, fill: "none", stroke: "#c5cbd1" }));
    const band = make("rect", { fill: "none", stroke: "#c2410c", "stroke-width": 2 });
    const small = paint(weights, most), holder = make("foreignObject", { x: left, y: top, width: K * step, height: Q * step });
    small.style.width = `${K * step}px`;
    small.style.height = `${Q * step}px`;
    small.style.imageRendering = "pixelated";
    small.style.display = "block";
    holder.append(small);
    svg.prepend(holder);
    small.addEventListener("mousemove", (event) => {
      const box = small.getBoundingClientRect(), k = Math.floor((event.clientX - box.left) / step), q = Math.floor((event.clientY - box.top) / step);
      if (q >= 0 && k >= 0 && q < Q && k < K) $("chosen").textContent = `${shown(line.queries[q])} \u2192 ${shown(line.keys[k])}: ${weights[q * K + k].toFixed(4)}`;
    });
    light = () => {
      const at = state.over || state.kept;
      band.setAttribute("visibility", at ? "visible" : "hidden");
      if (at && at.side === "query") for (const [key, value] of Object.entries({ x: left, y: top + at.place * step, width: K * step, height: step })) band.setAttribute(key, value);
      if (at && at.side === "key") for (const [key, value] of Object.entries({ x: left + at.place * step, y: top, width: step, height: Q * step })) band.setAttribute(key, value);
      tell();
    };
    line.queries.forEach((text, i) => svg.append(word(text, "query", i, { x: left - 8, y: top + (i + 0.5) * step, "text-anchor": "end" })));
    line.keys.forEach((text, i) => {
      const x = left + (i + 0.5) * step;
      svg.append(word(text, "key", i, { x, y: top - 6, transform: `rotate(-90 ${x} ${top - 6})` }));
    });
    svg.append(band);
    light();
    return svg;
  }

  // -- start -----------------------------------------------------------------------------------------------------------

  data.forEach((each, i) => {
    const option = document.createElement("option");
    option.value = i;
    option.textContent = `${i + 1}: ${each.text.length > 80 ? each.text.slice(0, 79) + "\u2026" : each.text}`;
    $("line").append(option);
  });
  $("choice").hidden = data.length < 2;
  $("line").addEventListener("change", (event) => open(Number(event.target.value)));
  for (const view of ["lines", "heat"]) $(view).addEventListener("click", () => { state.view = view; draw(); });
  $("mean").addEventListener("click", () => { state.mean = true; choose(); });
  open(0);
  const said = new URLSearchParams(location.hash.slice(1)); // #view=heat&layer=1&head=2&word=3, from 1
  if (said.get("view")) state.view = said.get("view") === "heat" ? "heat" : "lines";
  if (said.get("layer")) Object.assign(state, { mean: false, layer: line.layers.indexOf(Number(said.get("layer"))), head: Math.max(0, line.heads.indexOf(Number(said.get("head") || 1))) });
  if (state.layer < 0) Object.assign(state, { mean: true, layer: 0 });
  const place = Number(said.get("word")) - 1;
  if (line.queries[place] !== undefined) state.kept = { side: "query", place };
  choose();
})();
