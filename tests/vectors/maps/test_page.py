"""Pages: whole in one file, safe with any word, and at work in a browser where there is one."""

from __future__ import annotations

import html
import html.parser
import json
import re
import shutil
import subprocess
from configparser import ConfigParser
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from conftest import ROOT

import nlptools
from nlptools.plots.pages import escaped
from nlptools.vectors.maps.page import page

ODD = ["</script><script>document.title='gone'</script>", "<img src=x onerror=alert(1)>", "<!--", "]]>", "{{data}}", "a&b",
       '"', "'", "\\", "\u2028", "\u202eevil", "tab\there", "new york", "\u05e9\u05dc\u05d5\u05dd", "\u6771\u4eac", " ",
       "__proto__", "\U0001f600", "e\u0301", "x" * 500]  # fmt: skip
CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(CHROMIUM is None, reason="no chromium is installed")


def odd_map(**options):
    rows = np.random.default_rng(0).standard_normal((len(ODD), 8)).astype(np.float32)
    groups = ["</style>" if i % 2 else "b" for i in range(len(ODD))]
    return nlptools.project(rows, ODD, groups=groups, arrows=[(ODD[0], ODD[14])], title="<b>&'\"{{data}}", **options)


class Tags(html.parser.HTMLParser):
    """What a parser of HTML makes of a page: tags with attributes, and the text of each script."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts, self.inside = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))
        self.inside = tag == "script"
        if self.inside:
            self.scripts.append("")

    def handle_endtag(self, tag):
        self.inside = False

    def handle_data(self, data):
        if self.inside:
            self.scripts[-1] += data


@pytest.mark.parametrize("dims", [2, 3])
def test_the_page_is_whole_and_holds_every_word(dims):
    made = odd_map(dims=dims)
    text = page(made)
    found = Tags(text)
    assert [tag for tag, _ in found.tags].count("script") == 2 == len(found.scripts)
    assert not [tag for tag, _ in found.tags if tag in ("img", "link", "iframe", "b", "object")]
    assert not [a for _, a in found.tags if {"src", "href", "onclick", "onerror", "style"} & a.keys()]
    assert "http:" not in text and "https:" not in text and "//cdn" not in text
    data = json.loads(found.scripts[0])
    assert data["words"] == ODD and data["dims"] == dims and data["arrows"] == [[0, 14]]
    assert len(data["coordinates"]) == dims * len(ODD) and max(map(abs, data["coordinates"])) == 1
    places, cosines = made.points.nearest(10)
    assert data["near"] == places.ravel().tolist() and data["k"] == 10
    assert np.array(data["cosines"]) / 1e4 == pytest.approx(cosines.ravel(), abs=6e-5)
    assert data["groups"] == ["b", "</style>"] and data["colors"][:3] == [0, 1, 0]
    policy = next(a["content"] for tag, a in found.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert "default-src 'none'" in policy and "unsafe" not in policy and policy.count("sha256-") == 2
    assert page(odd_map(dims=dims)) == text, "the same map gives the same bytes"


def test_json_in_a_script_element():
    for text in (*ODD, "\ud800", "\x00"):
        made = escaped([text])
        assert json.loads(made) == [text] and not set(made) & set("<>&\u2028\u2029")
        made.encode("utf-8")


@pytest.mark.parametrize("count", [2, 3])
def test_few_words(count):
    rows = np.random.default_rng(1).standard_normal((count, 4)).astype(np.float32)
    data = json.loads(Tags(page(nlptools.project(rows))).scripts[0])
    assert data["k"] == count - 1 and len(data["near"]) == count * (count - 1) and data["colors"] is None


def test_the_wheel_will_hold_the_parts_of_the_page():
    config = ConfigParser()
    config.read(ROOT / "setup.cfg")
    patterns = config["options.package_data"]["nlptools.vectors.maps"].split(", ")
    held = {path.name for pattern in patterns for path in (ROOT / "nlptools/vectors/maps").glob(pattern)}
    assert held == {path.name for path in (ROOT / "nlptools/vectors/maps").iterdir() if path.suffix not in (".py", "")}
    assert {"page.html", "page.css", "page.js", "scene.js"} <= held


# -- in a browser -----------------------------------------------------------------------------------------------------


def dom(path: Path, address: str = "") -> str:
    """The page as the browser has it once its script has run."""
    done = subprocess.run(
        [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--enable-logging=stderr",
         f"--user-data-dir={path.parent / 'profile'}", "--window-size=1000,700", "--virtual-time-budget=3000", "--dump-dom", f"file://{path}{address}"],
        capture_output=True, timeout=120,
    )  # fmt: skip
    said = [line for line in done.stderr.decode("utf-8", "replace").split("\n") if "CONSOLE" in line]
    assert done.returncode == 0 and not said, said
    return done.stdout.decode("utf-8")


def listed(text: str, name: str) -> list[int]:
    """The numbers of the words in a list of the page."""
    inside = re.search(f'<ol id="{name}"[^>]*>(.*?)</ol>', text, re.DOTALL)
    assert inside
    return [int(number) for number in re.findall(r'data-word="(\d+)"', inside.group(1))]


@pytest.mark.sampled(law="a page answers in a browser")
@in_browser
def test_a_word_in_the_address_is_selected_with_its_neighbors(tmp_path):
    words = [f"word{i}" for i in range(30)] + ["King", "kingdom", "king", "viking"]
    rows = np.random.default_rng(0).standard_normal((34, 8)).astype(np.float32)
    made = nlptools.project(rows, words, arrows=[("word1", "king")])
    (tmp_path / "m.html").write_text(page(made), encoding="utf-8")
    text = dom(tmp_path / "m.html", "#q=king")
    assert (
        re.search(r'<body[^>]* data-ready="34"', text) and 'data-selected="king"' in text and 'data-matches="4"' in text
    )
    assert listed(text, "matches") == [32, 30, 31, 33], "as it is, in other letters, beginnings, parts"
    places, cosines = made.points.nearest(10)
    assert listed(text, "near") == places[32].tolist()
    assert re.findall(r"<span>(-?\d\.\d{3})</span>", text) == [f"{c:.3f}" for c in np.rint(cosines[32] * 1e4) / 1e4]
    text = dom(tmp_path / "m.html", "#q=zebra&theme=dark")
    assert "nothing found" in text and 'data-theme="dark"' in text and '<section id="selected" hidden' in text


@pytest.mark.sampled(law="a page answers in a browser")
@in_browser
@pytest.mark.parametrize("dims", [2, 3])
def test_no_word_does_harm(tmp_path, dims):
    (tmp_path / "m.html").write_text(page(odd_map(dims=dims)), encoding="utf-8")
    text = dom(tmp_path / "m.html", "#q=" + quote(ODD[1]))
    assert "<title>&lt;b&gt;&amp;'\"{{data}}</title>" in text, "no script of a word ran"
    assert "<img" not in text and '<h2 id="word" dir="auto">&lt;img src=x' in text
    assert f'data-ready="{len(ODD)}"' in text and len(listed(text, "near")) == 10


@pytest.mark.sampled(law="a page answers in a browser")
@in_browser
def test_the_picture_is_drawn(tmp_path):
    (tmp_path / "m.html").write_text(page(odd_map()), encoding="utf-8")
    shot = tmp_path / "shot.png"
    command = [str(CHROMIUM), "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
               f"--user-data-dir={tmp_path / 'profile'}", f"--screenshot={shot}", "--window-size=800,600",
               f"file://{tmp_path / 'm.html'}#theme=light"]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    image = pytest.importorskip("matplotlib.image").imread(shot)
    found = (image[..., :3] * 255).round().astype(int)
    for color in ((0x00, 0x72, 0xB2), (0xD5, 0x5E, 0x00), (0xC2, 0x41, 0x0C)):  # two groups, an arrow
        assert (np.abs(found[:, :500] - color).sum(axis=2) < 110).sum() > 20, color
    assert (found[:, :500] > 250).all(axis=2).mean() > 0.8, "a light ground"


DRIVE = """<script>{
const canvas = document.getElementById("map"), $ = (id) => document.getElementById(id), said = {};
canvas.setPointerCapture = () => {};
const box = canvas.getBoundingClientRect();
const point = (type, x, y, more = {}) => canvas.dispatchEvent(new PointerEvent(type,
  { clientX: box.left + x, clientY: box.top + y, pointerId: 1, bubbles: true, ...more }));
const key = (where, name) => where.dispatchEvent(new KeyboardEvent("keydown", { key: name, bubbles: true, cancelable: true }));
const find = () => {
  for (let y = 20; y < box.height; y += 6) for (let x = 20; x < box.width; x += 6) {
    point("pointermove", x, y);
    if (canvas.classList.contains("on")) return [x, y];
  }
};
const [x, y] = find();
said.tip = $("tip").textContent;
point("pointerdown", x, y); point("pointerup", x, y);
said.clicked = document.body.dataset.selected;
said.address = decodeURIComponent(location.hash);
$("near").querySelector("button").click();
said.neighbor = document.body.dataset.selected;
key(document, "/");
said.focus = document.activeElement.id;
$("search").value = "word1"; $("search").dispatchEvent(new Event("input"));
said.found = document.body.dataset.matches;
key($("search"), "ArrowDown");
said.row = document.activeElement.textContent;
key($("search"), "Enter");
said.entered = document.body.dataset.selected;
key(document, "Escape");
said.cleared = [document.body.dataset.selected, $("search").value, document.activeElement.id];
key(canvas, "n"); key(canvas, "n"); key(canvas, "p");
said.stepped = document.body.dataset.selected;
key(document, "Escape");
const before = find();
point("pointerdown", 300, 300); point("pointermove", 340, 330, { buttons: 1 }); point("pointerup", 340, 330);
said.dragged = document.body.dataset.selected;
requestAnimationFrame(() => setTimeout(() => {
  const after = find();
  said.moved = [after[0] - before[0], after[1] - before[1]];
  document.title = JSON.stringify(said);
}, 50));
}</script>"""


@pytest.mark.sampled(law="a page answers in a browser")
@in_browser
def test_mouse_and_keys(tmp_path):
    words = [f"word{i}" for i in range(5)]
    rows = np.array([[-2, -1, 0], [2, -1, 0.1], [2, 1, 0.3], [-2, 1, 0.2], [0, 0, 0.5]], np.float32)
    text = page(nlptools.project(rows, words))
    text = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', "", text).replace("</body>", DRIVE + "</body>")
    (tmp_path / "m.html").write_text(text, encoding="utf-8")
    title = re.search("<title>(.*?)</title>", dom(tmp_path / "m.html"))
    said = json.loads(html.unescape(title.group(1)))
    assert said["tip"] == said["clicked"] in words and said["address"] == f"#q={said['clicked']}"
    assert said["neighbor"] in words and said["neighbor"] != said["clicked"]
    assert said["focus"] == "search" and said["found"] == "1" and said["row"] == "word1" == said["entered"]
    assert said["cleared"] == ["", "", "map"] and said["stepped"] == "word0" and said["dragged"] == ""
    assert said["moved"] == pytest.approx([40, 30], abs=8), "a drag takes the map along"
