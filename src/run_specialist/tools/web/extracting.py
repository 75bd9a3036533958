"""Script that prints the content of a page as Markdown: `extracting.py URL < HTML`.

It runs in a separate process, because the parser is native code that cannot be interrupted.
"""

import sys

import trafilatura


def markdown(html: str, url: str) -> str:
    """Return the content of a page without its navigation, under its title; all of its text if it has no content."""
    text = trafilatura.extract(
        html,
        url=url,
        output_format="markdown",
        include_links=True,
        include_tables=True,
        include_comments=False,
        favor_recall=True,
    ) or trafilatura.html2txt(html)
    title = " ".join((trafilatura.extract_metadata(html, default_url=url).title or "").split())
    return f"# {title}\n\n{text}" if title and not text.startswith("#") else text


if __name__ == "__main__":
    page = sys.stdin.buffer.read().decode("utf-8", "replace")
    sys.stdout.buffer.write(markdown(page, sys.argv[1]).encode("utf-8", "replace"))
