"""The few pages that a person may open: the public repositories, and their discussions as they stand."""

import re
from html import escape

from markdown_it import MarkdownIt
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import Route

from simulators.gitea.state import Doc, State

_MARKDOWN = MarkdownIt("commonmark", {"html": False})
_INVISIBLE = re.compile(r"<!--.*?-->", re.DOTALL)
_PAGE = """<!doctype html>
<html lang="en"><meta charset="utf-8"><title>{title}</title>
<style>
body {{ font: 16px/1.5 system-ui, sans-serif; max-width: 48rem; margin: 2rem auto; padding: 0 1rem }}
article {{ border: 1px solid #ccc; border-radius: 6px; margin: 1rem 0; padding: 0 1rem }}
pre {{ background: #f4f4f4; padding: .5rem; overflow: auto }} small {{ color: #666 }}
</style>
<h1>{title}</h1>
{body}
<p><small>A simulated Gitea. Nothing here is on the network.</small></p>
</html>
"""


async def front(request: Request) -> Response:
    """Every public repository."""
    state: State = request.app.state.gitea
    names = [one["full_name"] for one in state.docs["repositories"] if not one["private"]]
    return _page("Repositories", _list([(f"/{name}", name) for name in names]))


async def repository(request: Request) -> Response:
    """Its Issues and Pull Requests."""
    repo = _public(request)
    links = [(_path(repo, one), f"#{one['number']} {one['title']}") for one in repo["issues"]]
    return _page(repo["full_name"], _list(links))


async def discussion(request: Request) -> Response:
    """An Issue or a Pull Request with its comments, oldest first. Reload to see what is new."""
    state: State = request.app.state.gitea
    repo, number = _public(request), int(request.path_params["number"])
    issue = state.issue(repo, number)
    if issue is None:
        raise HTTPException(404)
    posts = [issue, *state.comments(repo, number)]
    title = f"{repo['full_name']} #{number}: {issue['title']} ({issue['state']})"
    return _page(title, "\n".join(_post(one) for one in posts))


def _public(request: Request) -> Doc:
    state: State = request.app.state.gitea
    repo = state.repository(request.path_params["owner"], request.path_params["repo"])
    if repo is None or state.level(repo, None) == 0:
        raise HTTPException(404)
    return repo


def _path(repo: Doc, issue: Doc) -> str:
    return f"/{repo['full_name']}/{'pulls' if issue['pull'] else 'issues'}/{issue['number']}"


def _post(post: Doc) -> str:
    text = _MARKDOWN.render(_INVISIBLE.sub("", post["body"]))
    return (
        f"<article><p><b>{escape(post['author'])}</b> <small>{escape(post['created_at'])}</small></p>{text}</article>"
    )


def _list(links: list[tuple[str, str]]) -> str:
    return "<ul>" + "".join(f'<li><a href="{escape(path)}">{escape(text)}</a></li>' for path, text in links) + "</ul>"


def _page(title: str, body: str) -> Response:
    return HTMLResponse(_PAGE.format(title=escape(title), body=body))


ROUTES = [
    Route("/", front),
    Route("/{owner}/{repo}/issues/{number:int}", discussion),
    Route("/{owner}/{repo}/pulls/{number:int}", discussion),
    Route("/{owner}/{repo}", repository),
]
