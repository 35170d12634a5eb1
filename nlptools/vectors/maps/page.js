"use strict";
// The panel beside the map, and what mouse, touch and keys do.

(() => {
  const $ = (id) => document.getElementById(id);
  const data = JSON.parse($("data").textContent), canvas = $("map"), count = data.words.length;
  data.shown = data.words.map((word) => {
    const line = word.replace(/\s/g, " ").replace(/[\p{Cc}\u202a-\u202e\u2066-\u2069]/gu, "\ufffd"); // no turned letters
    return line.length > 40 ? line.slice(0, 39) + "\u2026" : line || "(empty)";
  });
  const folded = data.words.map((word) => word.normalize("NFC").toLowerCase());
  const scene = makeScene(canvas, data), state = scene.state;
  let matches = [], exact = false;

  // -- selection ------------------------------------------------------------------------------------------------------

  function select(i, say = true) {
    state.selected = i;
    document.body.dataset.selected = i < 0 ? "" : data.words[i];
    $("selected").hidden = i < 0;
    if (i >= 0) {
      $("word").textContent = data.words[i];
      const group = data.groups.length && data.groups[data.colorOf[i]];
      $("about").textContent = (group ? group + " \u00b7 " : "") + `word ${(i + 1).toLocaleString("en")} \u00b7 nearest by cosine:`;
      const from = i * data.k;
      list($("near"), data.near.slice(from, from + data.k), data.cosines.slice(from, from + data.k).map((c) => c / 10000));
      scene.reveal(i);
      if (say) remember(data.words[i]);
    } else if (say) remember("");
    mark();
  }

  function mark() { // what stands out: neighbors of the selected word, else what was searched for
    const i = state.selected, close = i < 0 ? [] : data.near.slice(i * data.k, (i + 1) * data.k);
    state.named = i < 0 ? matches.slice(0, 60) : close;
    state.bright = new Set(i < 0 ? matches : [i, ...close]);
    scene.draw();
  }

  function list(where, places, scores) {
    where.replaceChildren(...places.map((i, n) => {
      const row = document.createElement("li"), button = document.createElement("button"), word = document.createElement("span");
      button.type = "button";
      button.dataset.word = i;
      word.dir = "auto";
      word.textContent = data.shown[i];
      word.title = data.words[i];
      if (scores) {
        const bar = document.createElement("i"), score = document.createElement("span");
        bar.style.width = Math.max(0, 100 * scores[n]) + "%";
        score.textContent = scores[n].toFixed(3);
        button.append(bar, word, score);
      } else button.append(word);
      row.append(button);
      return row;
    }));
    where.hidden = !places.length;
    where.scrollTop = 0;
  }

  function remember(word) {
    try {
      history.replaceState(null, "", word ? "#q=" + encodeURIComponent(word) : "#");
    } catch { /* a page that may not change its address is a map all the same */ }
  }

  // -- search ---------------------------------------------------------------------------------------------------------

  function search(text) {
    const query = text.normalize("NFC").toLowerCase(), ranks = [[], [], [], []];
    if (query) {
      folded.forEach((word, i) => {
        if (data.words[i] === text) ranks[0].push(i);
        else if (word === query) ranks[1].push(i);
        else if (word.startsWith(query)) ranks[2].push(i);
        else if (word.includes(query)) ranks[3].push(i);
      });
    }
    matches = ranks.flat();
    exact = ranks[0].length + ranks[1].length > 0;
    $("status").textContent = !query ? "" : matches.length ? `${matches.length.toLocaleString("en")} found` : "nothing found";
    document.body.dataset.matches = query ? matches.length : "";
    list($("matches"), matches.slice(0, 100));
    mark();
  }

  function fromAddress() {
    const said = new URLSearchParams(location.hash.slice(1));
    if (said.get("theme")) theme(said.get("theme"));
    const query = said.get("q");
    if (!query || query === document.body.dataset.selected) return;
    $("search").value = query;
    search(query);
    select(exact ? matches[0] : -1, false);
  }

  $("search").addEventListener("input", (event) => {
    if (state.selected >= 0) select(-1);
    search(event.target.value);
  });
  $("search").addEventListener("keydown", (event) => {
    if (event.key === "Enter" && matches.length) select(matches[0]);
    if (event.key === "ArrowDown" && matches.length) {
      event.preventDefault();
      $("matches").querySelector("button").focus();
    }
  });
  for (const where of [$("matches"), $("near")]) {
    const over = (event, on) => {
      const button = event.target.closest("button");
      state.hovered = button && on ? Number(button.dataset.word) : -1;
      scene.draw();
    };
    where.addEventListener("click", (event) => {
      const button = event.target.closest("button");
      if (button) select(Number(button.dataset.word));
    });
    where.addEventListener("mouseover", (event) => over(event, true));
    where.addEventListener("mouseout", (event) => over(event, false));
    where.addEventListener("focusin", (event) => over(event, true));
    where.addEventListener("focusout", (event) => over(event, false));
    where.addEventListener("keydown", (event) => {
      const step = { ArrowDown: "nextElementSibling", ArrowUp: "previousElementSibling" }[event.key];
      const row = step && event.target.closest("li")[step];
      if (step) event.preventDefault();
      if (row) row.firstElementChild.focus();
      else if (event.key === "ArrowUp") $("search").focus();
    });
  }

  // -- mouse and touch ------------------------------------------------------------------------------------------------

  const held = new Map();
  let travelled = 0;

  function hover(event) {
    const box = canvas.getBoundingClientRect(), x = event.clientX - box.left, y = event.clientY - box.top;
    const found = scene.hit(x, y), tip = $("tip");
    canvas.classList.toggle("on", found >= 0);
    tip.hidden = found < 0;
    if (found >= 0) {
      tip.textContent = data.words[found] || "(empty)";
      const right = x > box.width - tip.offsetWidth - 30;
      tip.style.left = (right ? x - tip.offsetWidth - 14 : x + 14) + "px";
      tip.style.top = Math.max(4, Math.min(y + 14, box.height - tip.offsetHeight - 4)) + "px";
    }
    if (found !== state.hovered) {
      state.hovered = found;
      scene.draw();
    }
  }

  canvas.addEventListener("pointerdown", (event) => {
    canvas.setPointerCapture(event.pointerId);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    if (held.size === 1) travelled = 0;
    canvas.classList.add("held");
  });
  canvas.addEventListener("pointermove", (event) => {
    const before = held.get(event.pointerId);
    if (!before) return hover(event);
    const dx = event.clientX - before[0], dy = event.clientY - before[1];
    travelled += Math.abs(dx) + Math.abs(dy);
    if (held.size === 2) { // pinch
      const other = [...held].find(([id]) => id !== event.pointerId)[1], box = canvas.getBoundingClientRect();
      const apart = (x, y) => Math.max(1, Math.hypot(x - other[0], y - other[1]));
      scene.zoom(apart(event.clientX, event.clientY) / apart(...before), other[0] - box.left, other[1] - box.top);
    } else if (scene.space && !event.shiftKey && !(event.buttons & 2)) scene.turn(dx, dy);
    else scene.pan(dx, dy);
    held.set(event.pointerId, [event.clientX, event.clientY]);
    $("tip").hidden = true;
  });
  function release(event) {
    if (!held.delete(event.pointerId)) return;
    canvas.classList.toggle("held", held.size > 0);
    if (event.type === "pointerup" && travelled < 5 && event.button === 0) {
      const box = canvas.getBoundingClientRect();
      select(scene.hit(event.clientX - box.left, event.clientY - box.top));
    }
  }
  canvas.addEventListener("pointerup", release);
  canvas.addEventListener("pointercancel", release);
  canvas.addEventListener("pointerleave", () => {
    $("tip").hidden = true;
    state.hovered = -1;
    scene.draw();
  });
  canvas.addEventListener("contextmenu", (event) => event.preventDefault());
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    const box = canvas.getBoundingClientRect(), lines = event.deltaMode ? 16 : 1;
    scene.zoom(Math.exp(-event.deltaY * lines * (event.ctrlKey ? 0.01 : 0.0015)), event.clientX - box.left, event.clientY - box.top);
  }, { passive: false });

  // -- keys and buttons -----------------------------------------------------------------------------------------------

  const move = scene.space ? (x, y) => scene.turn(x, y) : (x, y) => scene.pan(x, y);
  const keys = {
    ArrowLeft: () => move(40, 0), ArrowRight: () => move(-40, 0), ArrowUp: () => move(0, 40), ArrowDown: () => move(0, -40),
    "+": () => scene.zoom(1.25), "=": () => scene.zoom(1.25), "-": () => scene.zoom(0.8), 0: () => scene.reset(),
    n: () => select((state.selected + 1) % count), p: () => select((Math.max(0, state.selected) + count - 1) % count),
  };
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.key === "Escape") {
      $("search").value = "";
      search("");
      select(-1);
      canvas.focus();
    } else if (event.key === "/" && event.target !== $("search")) {
      event.preventDefault();
      $("search").focus();
      $("search").select();
    } else if (event.target === canvas && Object.hasOwn(keys, event.key)) {
      event.preventDefault();
      keys[event.key]();
    }
  });
  $("nearer").addEventListener("click", () => scene.zoom(1.4));
  $("farther").addEventListener("click", () => scene.zoom(1 / 1.4));
  $("whole").addEventListener("click", () => scene.reset());
  $("theme").addEventListener("click", () => theme(document.documentElement.dataset.theme === "dark" ? "light" : "dark"));

  function theme(name) {
    document.documentElement.dataset.theme = name === "dark" ? "dark" : "light";
    scene.restyle();
  }

  // -- beginning ------------------------------------------------------------------------------------------------------

  data.groups.forEach((name, i) => {
    const row = document.createElement("li"), dot = document.createElement("b"), text = document.createElement("span");
    dot.style.background = i < 8 ? `var(--c${i})` : "var(--none)";
    text.textContent = name;
    text.dir = "auto";
    row.append(dot, text);
    $("legend").append(row);
  });
  $("legend").hidden = !data.groups.length;
  $("keys").textContent = (scene.space ? "Drag turns, Shift and drag moves, the wheel zooms." : "Drag moves, the wheel zooms.")
    + " On the map: arrow keys, +, \u2212, 0; n and p go through the words. Esc clears.";
  const dark = matchMedia("(prefers-color-scheme: dark)");
  document.documentElement.dataset.theme = dark.matches ? "dark" : "light";
  dark.addEventListener("change", () => theme(dark.matches ? "dark" : "light"));
  new ResizeObserver(() => { scene.resize(); scene.paint(); }).observe(canvas);
  addEventListener("hashchange", fromAddress);
  scene.resize();
  fromAddress();
  scene.paint();
  document.body.dataset.ready = count;
})();
