"""What mkdocs calls while it builds the site: READMEs become pages, and links fit the site.

mkdocs.yml names this file. It writes nothing outside the folder that mkdocs builds into.
"""

import re
from pathlib import Path
from typing import Any, Final

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.exceptions import PluginError
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

from cotenant_e2e.documentation import links

ROOT: Final = Path(__file__).parents[3]
PARTS: Final = {
    "CONTRIBUTING.md": "project/contributing.md",
    "CHANGELOG.md": "project/changelog.md",
    "charts/cotenant/README.md": "parts/chart.md",
    "cli/README.md": "parts/cli.md",
    "dashboard/README.md": "parts/dashboard.md",
    "deviceplugin/README.md": "parts/node-agent.md",
    "e2e/README.md": "parts/e2e.md",
    "e2e/gpu/README.md": "parts/gpu-experiments.md",
    "extender/README.md": "parts/extender.md",
    "images/README.md": "parts/images.md",
    "manifests/examples/README.md": "parts/examples.md",
    "operator/README.md": "parts/operator.md",
    "predictor/README.md": "parts/predictor.md",
    "predictor/cotenant_predictor/devices/README.md": "parts/gpu-models.md",
    "runtime/README.md": "parts/runtime.md",
    "simulator/README.md": "parts/simulator.md",
}
"""Files outside docs/ that are pages of the site, where they are there."""
_FETCHED: Final = re.compile(r"""<(?:script|img|iframe|link)\b[^>]*\b(?:src|href)=["']?(?:https?:)?//[^"'\s>]+""")


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Leave out of the navigation what is included and is not there."""
    absent = set(PARTS.values()) - set(_included().values())
    config.nav = _without(config.nav, absent)
    return config


def on_files(files: Files, *, config: MkDocsConfig) -> Files:
    """Add the READMEs."""
    for source, page in _included().items():
        files.append(File.generated(config, page, content=(ROOT / source).read_text(encoding="utf-8")))
    return files


def on_page_markdown(markdown: str, *, page: Page, config: MkDocsConfig, **_: Any) -> str:
    """Links to other files of the repository."""
    uri = page.file.src_uri
    sources = {there: source for source, there in PARTS.items()}
    site = links.Site(root=ROOT, included=_included(), repository=config.repo_url or "")
    return links.rewritten(markdown, source=sources.get(uri, f"{links.DOCS}/{uri}"), page=uri, site=site)


def on_post_page(output: str, *, page: Page, **_: Any) -> str:
    """Return the page as it is, which fetches nothing from elsewhere.

    Raises:
        PluginError: it would.
    """
    fetched = _FETCHED.search(output)
    if fetched is not None:
        raise PluginError(
            f"{page.file.src_uri}: {fetched[0]}: a page must fetch nothing from elsewhere; put it into docs/"
        )
    return output


def _included() -> dict[str, str]:
    return {source: page for source, page in PARTS.items() if (ROOT / source).is_file()}


def _without(nav: Any, absent: set[str]) -> Any:
    """Return a part of the navigation without some pages."""
    if isinstance(nav, list):
        return [_without(entry, absent) for entry in nav if not (isinstance(entry, dict) and _only(entry) in absent)]
    if isinstance(nav, dict):
        return {title: _without(entry, absent) for title, entry in nav.items()}
    return nav


def _only(entry: dict[str, Any]) -> str | None:
    value = next(iter(entry.values()))
    return value if isinstance(value, str) else None
