"""What mkdocs has to know about the pages below docs.

Pages link to files of the repository, as in ../bench/RESULTS.md, so that the links work where the files are read. On the site
such a link leads to the repository, and a picture becomes part of the site.

Pages below zh are Chinese. A page has the navigation of its language, and a link to the same page in the other one.
"""
import copy
import posixpath
import re

from mkdocs.structure.files import File

REPOSITORY = "https://github.com/lockgen/lockgen/blob/main/"
LINK = re.compile(r"(!?)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^ *```.*?^ *```[^\n]*$", re.MULTILINE | re.DOTALL)


def outside(page, target):
    """Returns the path in the repository of a link that leaves docs, or None."""
    if "://" in target or target.startswith(("#", "mailto:")):
        return None
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target.split("#")[0]))
    return None if path.startswith("docs/") else path


def on_files(files, config):
    root = posixpath.dirname(config.config_file_path.replace("\\", "/"))
    for name in ("alone", "shared", "processes", "handover"):
        files.append(File.generated(config, "bench/" + name + ".svg", abs_src_path=posixpath.join(root, "bench", name + ".svg")))
    return files


def on_page_markdown(markdown, page, config, files):
    up = "../" * page.file.src_uri.count("/")

    def replace(m):
        path = outside(page.file.src_uri, m[3])
        if path is None:
            return m[0]
        if m[1]:
            return "![%s](%s%s)" % (m[2], up, path)
        _, hash, anchor = m[3].partition("#")
        return "[%s](%s%s%s%s)" % (m[2], REPOSITORY, path, hash, anchor)

    parts, end = [], 0
    for fence in FENCE.finditer(markdown):
        parts += [LINK.sub(replace, markdown[end:fence.start()]), fence[0]]
        end = fence.end()
    parts.append(LINK.sub(replace, markdown[end:]))
    return "".join(parts)


def chinese(item):
    """Reports whether an item of the navigation, a page or a section, is Chinese."""
    return item.file.src_uri.startswith("zh/") if item.is_page else all(chinese(child) for child in item.children)


def on_page_context(context, page, config, nav):
    lang = "zh" if chinese(page) else "en"
    own = copy.copy(nav)
    own.items = [item for item in nav.items if chinese(item) == (lang == "zh")]
    if lang == "zh":
        own.items = own.items[0].children
        own.homepage = own.items[0]
    context["nav"] = own
    config.theme["language"] = lang

    name = posixpath.relpath(page.file.src_uri, "zh") if lang == "zh" else page.file.src_uri
    uris = {p.file.src_uri: p.url for p in nav.pages}
    config.extra["alternate"] = [
        {"name": "English", "lang": "en", "link": uris.get(name, "")},
        {"name": "中文", "lang": "zh", "link": uris.get("zh/" + name, uris["zh/index.md"])},
    ]
    return context


def on_post_page(output, page, config):
    """Takes the other languages out of the head of a page: the theme would look for a sitemap of its own beside each of them."""
    return re.sub(r'<link [^>]*\brel="?alternate"?[^>]*>', "", output)
