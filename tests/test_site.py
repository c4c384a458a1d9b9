"""The built site, read as a stranger's browser reads it. `make test` builds it first if need be."""

import os
import re
import shutil
from functools import partial
from html.parser import HTMLParser
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from urllib.parse import unquote, urlsplit

import numpy as np
import pytest

import attn_clusters as ac

SITE = Path(__file__).resolve().parent.parent / "_build" / "html"
MEGABYTES = 1.5
CHROME = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable",
          "/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
RESOURCES = {"img", "script", "link", "iframe", "source", "video", "audio", "embed", "object"}
DESKTOP, PHONE = {"width": 1280, "height": 900}, {"width": 390, "height": 844}
TEX_LEFT = re.compile(r"\\\(|\\\[|\$\$|\\(frac|begin|langle|sum|lambda|mathbb|top)\b")


def missing(what):
    """In continuous integration nothing may be left unchecked; elsewhere say why it was."""
    (pytest.fail if os.environ.get("CI") else pytest.skip)(what)


@pytest.fixture(scope="module")
def site():
    if not (SITE / "index.html").exists():
        missing("the site is not built: make book")
    return SITE


class Page(HTMLParser):
    """What a page offers (anchors) and what it asks for (links, resources, images)."""

    def __init__(self, path):
        super().__init__()
        self.anchors, self.links, self.resources, self.images = set(), [], [], []
        self.redirects = False
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        self.anchors |= {attrs[key] for key in ("id", "name") if attrs.get(key)}
        target = attrs.get("href") or attrs.get("src") or attrs.get("data")
        if tag == "meta" and attrs.get("http-equiv", "").lower() == "refresh":
            self.redirects = True
            target = attrs["content"].partition("url=")[2]
        if tag == "img":
            self.images.append((attrs.get("src", ""), attrs.get("alt") or ""))
        if target:
            (self.resources if tag in RESOURCES else self.links).append(target)


def pages(root):
    """Every page of the site, but not files of the theme that happen to be HTML."""
    found = [path for path in sorted(root.rglob("*.html"))
             if path.relative_to(root).parts[0] not in ("_static", "_sources")]
    return {path: Page(path) for path in found}


def broken_links(root):
    """Links and resources inside the site that lead nowhere; resources outside it."""
    read, problems = pages(root), []
    for path, page in read.items():
        for target in page.links + page.resources:
            url = urlsplit(target)
            if url.scheme == "data":
                continue
            if url.scheme or url.netloc:
                if target in page.resources:
                    problems.append(f"{path.relative_to(root)}: off-site {target}")
                continue
            file = (path.parent / unquote(url.path)).resolve() if url.path else path
            anchor = unquote(url.fragment)
            if not file.is_file() or not file.is_relative_to(root.resolve()):
                problems.append(f"{path.relative_to(root)}: no such file {target}")
            elif anchor and file.suffix == ".html" and anchor not in read[file].anchors:
                problems.append(f"{path.relative_to(root)}: no such anchor {target}")
    return problems


def unnamed_images(root):
    return [f"{path.relative_to(root)}: {source}" for path, page in pages(root).items()
            for source, alt in page.images if not alt.strip()]


def weight(path, page):
    """Bytes of a page with its pictures, without the scripts and styles that all pages share."""
    images = {(path.parent / unquote(urlsplit(source).path)).resolve() for source, _ in page.images}
    return path.stat().st_size + sum(image.stat().st_size for image in images if image.is_file())


def test_every_link_and_anchor_resolves(site):
    problems = broken_links(site)
    assert not problems, "\n".join(problems)


def test_every_image_has_a_text_in_its_place(site):
    problems = unnamed_images(site)
    assert not problems, "\n".join(problems)


def test_pages_are_small(site):
    heavy = {path.name: size for path, page in pages(site).items()
             if (size := weight(path, page)) > MEGABYTES * 1e6}
    assert heavy == {}


def test_these_checks_can_say_no(tmp_path):
    (tmp_path / "page.html").write_text(
        '<p id="here"><a href="#here">a</a><a href="#gone">b</a><a href="gone.html">c</a>'
        '<img src="page.html"><script src="https://example.org/x.js"></script>')
    assert broken_links(tmp_path) == ["page.html: no such anchor #gone",
                                      "page.html: no such file gone.html",
                                      "page.html: off-site https://example.org/x.js"]
    assert unnamed_images(tmp_path) == ["page.html: page.html"]


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    chrome = next(filter(None, map(shutil.which, CHROME)), None)
    if chrome is None:
        missing("no Chromium on this machine")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        arguments = ["--no-sandbox", "--disable-gpu", "--disable-background-networking"]
        home = {**os.environ, "HOME": str(tmp_path_factory.mktemp("home"))}  # leave the reader's alone
        running = playwright.chromium.launch(executable_path=chrome, args=arguments, env=home)
        yield running
        running.close()


class Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture(scope="module")
def server(site):
    with ThreadingHTTPServer(("127.0.0.1", 0), partial(Quiet, directory=site)) as running:
        Thread(target=running.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{running.server_port}"
        running.shutdown()


LOOK = """async () => {
    if (document.querySelector('script[src*=mathjax]')) await MathJax.startup.promise;
    const bare = [...document.querySelectorAll('.math')]
        .filter(node => !node.querySelector('mjx-container')).map(node => node.textContent);
    const article = (document.querySelector('article') || document.body).cloneNode(true);
    for (const node of article.querySelectorAll('pre, code, script, style, mjx-container'))
        node.remove();
    return {bare, text: article.textContent,
            formulas: document.querySelectorAll('mjx-container').length,
            refused: document.querySelectorAll('mjx-merror, [data-mjx-error]').length};
}"""


@pytest.fixture(scope="module", params=["http", "file"])
def seen(request, browser, site):
    """Every page as Chromium shows it, served or from disk, with the rest of the world cut off."""
    base = request.getfixturevalue("server") if request.param == "http" else site.as_uri()
    pages_seen, complaints = {}, []

    def answer(route):
        if route.request.url.startswith(base):
            return route.continue_()
        complaints.append(f"asked for {route.request.url}")
        return route.abort()

    def hear(message):
        if message.type == "error":
            complaints.append(message.text)

    with browser.new_context() as context:
        context.route("**/*", answer)
        tab = context.new_page()
        tab.on("pageerror", lambda error: complaints.append(str(error)))
        tab.on("console", hear)
        for path, page in pages(site).items():
            if page.redirects:
                continue
            name = path.relative_to(site).as_posix()
            tab.set_viewport_size(DESKTOP)
            tab.goto(f"{base}/{name}")
            pages_seen[name] = tab.evaluate(LOOK) | {"complaints": list(complaints)}
            tab.set_viewport_size(PHONE)
            for colours in ("light", "dark"):
                tab.emulate_media(color_scheme=colours)
                pages_seen[name][colours] = tab.evaluate("document.documentElement.scrollWidth")
            complaints.clear()
    return pages_seen


def test_no_page_complains_or_asks_for_anything_off_the_site(seen):
    problems = [f"{name}: {line}" for name, page in seen.items() for line in page["complaints"]]
    assert not problems, "\n".join(problems)


def test_mathematics_is_typeset(seen):
    assert any(page["formulas"] for page in seen.values())
    for name, page in seen.items():
        assert page["bare"] == [], f"{name}: not typeset"
        assert page["refused"] == 0, f"{name}: MathJax refuses a formula"
        assert not TEX_LEFT.search(page["text"]), f"{name}: TeX left in the text"


@pytest.mark.parametrize("colours", ["light", "dark"])
def test_pages_fit_a_phone(seen, colours):
    problems = [f"{name}: {page[colours]} pixels wide" for name, page in seen.items()
                if page[colours] > PHONE["width"]]
    assert not problems, "\n".join(problems)


@pytest.mark.parametrize("settings", [{}, {"ratio": 0.4, "angle": 30, "seed": 3, "n": 25}])
def test_the_explorable_agrees_with_the_library(browser, site, settings):
    """Runge-Kutta in the browser against the library's solver, from the browser's own tokens."""
    tab = browser.new_page()
    tab.goto((site / "book" / "explore.html").as_uri())
    for name, value in settings.items():
        tab.evaluate("""([name, value]) => {
            const input = document.querySelector(`.explore input[name=${name}]`);
            input.value = value;
            input.dispatchEvent(new Event("input"));
        }""", [name, value])
    seen = tab.evaluate("""() => {
        const {B, step, frames} = document.querySelector(".explore").explored;
        return {B, step, frames: frames.map(frame => Array.from(frame)),
                said: document.querySelector("[data-said]").textContent};
    }""")
    tab.close()
    frames = np.array(seen["frames"]).reshape(len(seen["frames"]), -1, 2)
    times = seen["step"] * np.arange(len(frames))
    first, mixed, second = seen["B"]
    flow = ac.RescaledFlow(np.eye(2), [[first, mixed], [mixed, second]], np.eye(2))
    run = ac.simulate(flow, frames[0], times)
    gaps = np.linalg.norm(run.tokens - frames, axis=2).max(axis=0)
    # Step 0.005 to the fourth order; where a token switches leaders within a few steps, less.
    assert np.median(gaps) < 1e-5 and gaps.max() < 1e-3
    assert len(frames[0]) == settings.get("n", 40) and times[-1] == pytest.approx(6.0)
    assert "At t = 1.50 the tokens take" in seen["said"]
