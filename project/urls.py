from __future__ import annotations

from django.contrib import admin
from django.urls import path

from project import entrance, views

urlpatterns = [
    path("", views.library, name="library"),
    path("search/", views.search, name="search"),
    path("new/", views.new, name="new"),
    path("edit/<path:path>/", views.edit, name="edit"),
    path("index/<path:path>/", views.index_again, name="index-again"),
    path("pages/<path:path>/", views.detail, name="detail"),
    path("status/", views.status, name="status"),
    path("status.json", views.status_json, name="status-json"),
    path("enter/<str:key>/", entrance.enter, name="enter"),
    path("admin/", admin.site.urls),
    path("favicon.ico", views.icon),  # what browsers ask for where no page names one
]
