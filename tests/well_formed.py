"""Whether a page is well-formed, and what it says."""

from html.parser import HTMLParser

VOID = {"meta", "br", "circle", "line", "rect", "link", "img", "input", "polyline"}


class Balanced(HTMLParser):
    def __init__(self):
        super().__init__()
        self.open = []
        self.text = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)


def parsed(page):
    """Text of a page whose tags are all closed."""
    parser = Balanced()
    parser.feed(page.replace("/>", ">"))
    assert parser.open == []
    return " ".join(" ".join(parser.text).split())
