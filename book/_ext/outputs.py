"""Text in place of every image: taken from the output's metadata, and required of all images."""

from docutils import nodes
from myst_nb.core.render import NbElementRenderer
from sphinx.util import logging

render_image = NbElementRenderer.render_image


def render_image_with_alt(self, data):
    """MyST-NB reads width and height from an output's metadata, but not the text in its place."""
    images = render_image(self, data)
    if alt := data.output_metadata.get(data.mime_type, {}).get("alt"):
        for image in images:
            image["alt"] = alt
    return images


def require_alt(app, doctree, docname):
    for image in doctree.findall(nodes.image):
        if not image.get("alt", "").strip():
            logging.getLogger(__name__).warning(
                "image without alt text: %s", image["uri"], location=image or docname)


def setup(app):
    NbElementRenderer.render_image = render_image_with_alt
    app.connect("doctree-resolved", require_alt)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
