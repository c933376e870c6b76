from __future__ import annotations

from typing import Final

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.templatetags.static import static
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from objq.errors import ObjqError, Overloaded
from project import jobs
from project.forms import PageForm
from project.models import Page
from project.saving import save_and_index
from project.search import Hit, Hits

PAGES_A_PAGE: Final = 40
HITS_A_PAGE: Final = 20


@require_GET
def library(request: HttpRequest) -> HttpResponse:
    pages = Page.objects.only("path", "title", "indexed_at", "saved_at")
    part = Paginator(pages, PAGES_A_PAGE).get_page(request.GET.get("page"))
    return render(request, "project/library.html", {"part": part})


@require_GET
def search(request: HttpRequest) -> HttpResponse:
    query = request.GET.get("q", "").strip()
    # A paginator counts and slices, and that is all that it needs of a list.
    hits: Paginator[Hit] = Paginator(Hits(query), HITS_A_PAGE)  # type: ignore[arg-type]
    part = hits.get_page(request.GET.get("page"))
    return render(request, "project/search.html", {"query": query, "part": part})


@require_GET
def detail(request: HttpRequest, path: str) -> HttpResponse:
    page = get_object_or_404(Page, path=path)
    return render(request, "project/detail.html", {"page": page})


@require_http_methods(["GET", "POST"])
def new(request: HttpRequest) -> HttpResponse:
    return change(request, Page())


@require_http_methods(["GET", "POST"])
def edit(request: HttpRequest, path: str) -> HttpResponse:
    return change(request, get_object_or_404(Page, path=path))


def change(request: HttpRequest, page: Page) -> HttpResponse:
    form = PageForm(request.POST or None, instance=page)
    if request.method != "POST" or not form.is_valid():
        status = 422 if form.is_bound else 200
        return render(request, "project/form.html", {"form": form, "page": page}, status=status)
    return saved(request, form.save(commit=False))


@require_POST
def index_again(request: HttpRequest, path: str) -> HttpResponse:
    return saved(request, get_object_or_404(Page, path=path))


def saved(request: HttpRequest, page: Page) -> HttpResponse:
    """Save, and go to the page; say so when it is saved but its job could not be pushed."""
    try:
        timing = save_and_index(page)
    except ObjqError as error:
        response = render(
            request,
            "project/not_queued.html",
            {"page": page, "error": error},
            status=429 if isinstance(error, Overloaded) else 503,
        )
        response["Retry-After"] = str(max(1, round(error.retry_after_s or 1)))
        return response
    response = redirect(page)
    response["Server-Timing"] = str(timing)
    return response


@require_GET
def icon(request: HttpRequest) -> HttpResponse:
    return redirect(static("project/icon.svg"))


@require_GET
@never_cache
def status(request: HttpRequest) -> HttpResponse:
    return render(request, "project/status.html", {"snapshot": jobs.snapshot()})


@require_GET
@never_cache
def status_json(request: HttpRequest) -> JsonResponse:
    return JsonResponse(jobs.snapshot())
