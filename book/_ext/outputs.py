"""Habits that MyST-NB does not have: images say what they show, moving ones wait, widgets stay out."""

from docutils import nodes
from myst_nb.core.render import NbElementRenderer
from sphinx.util import logging

WIDGET = "application/vnd.jupyter.widget-view+json"
PLAY = ('<details class="companion-animation"><summary><span>Play</span><span>Stop</span> '
        "the animation</summary>")
render_image = NbElementRenderer.render_image


def render_image_with_alt(self, data):
    """Besides an output's width and height, take its alternative text from the metadata.

    An image that moves is fetched and shown when the reader opens it, and stops when it is closed.
    """
    images = render_image(self, data)
    metadata = data.output_metadata.get(data.mime_type, {})
    for image in images:
        if alt := metadata.get("alt"):
            image["alt"] = alt
    if metadata.get("moves"):
        images[0]["loading"] = "lazy"
        images = [nodes.raw(text=PLAY, format="html"), *images,
                  nodes.raw(text="</details>", format="html")]
    return images


def drop_widgets(app, doctree):
    """A widget without a kernel is a dead slider, and its state can outweigh the page."""
    for bundle in list(doctree.findall(nodes.container)):
        if any(child.get("mime_type") == WIDGET for child in bundle.findall(nodes.container)):
            if bundle.get("nb_element") == "mime_bundle":
                bundle.parent.remove(bundle)


def require_alt(app, doctree, docname):
    for image in doctree.findall(nodes.image):
        if not image.get("alt", "").strip():
            logging.getLogger(__name__).warning(
                "image without alternative text: %s", image["uri"], location=image)


def setup(app):
    NbElementRenderer.render_image = render_image_with_alt
    NbElementRenderer.render_nb_finalise = lambda self, metadata: None  # writes the widgets' state
    app.connect("doctree-read", drop_widgets)
    app.connect("doctree-resolved", require_alt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
