from __future__ import annotations

from typing import ClassVar, Final

from django.core.validators import MaxLengthValidator, RegexValidator
from django.db import models
from django.urls import reverse
from django.utils import timezone

MAX_BODY: Final = 4 * 1024 * 1024
"""Characters in a page."""

PATH = RegexValidator(
    r"^[\w.+-]+(/[\w.+-]+)*$",
    "Use letters, digits, and . _ + - with single slashes between the parts, as in guide/start.",
)


class Page(models.Model):
    """A page of the library. `indexed_at` is None until this very text can be searched."""

    path = models.CharField(
        max_length=200,
        unique=True,
        validators=[PATH],
        help_text="The page's address, such as guide/getting-started.",
    )
    title = models.CharField(max_length=200)
    keywords = models.CharField(
        max_length=200, blank=True, help_text="Words to find the page by that its text lacks."
    )
    saved_at = models.DateTimeField(auto_now=True)
    indexed_at = models.DateTimeField(null=True, editable=False)
    # Last, since SQLite reads through all columns before the one that it is asked for.
    body = models.TextField(blank=True, validators=[MaxLengthValidator(MAX_BODY)])

    class Meta:
        ordering: ClassVar = ["path"]
        indexes: ClassVar = [models.Index(fields=["indexed_at"], name="page_indexed_at")]

    def __str__(self) -> str:
        return self.title

    def get_absolute_url(self) -> str:
        return reverse("detail", args=[self.path])


class IndexJob(models.Model):
    """Which job was pushed for which save of a page; what became of it is in the queue.

    `enqueued_at` is when the page was saved and its job about to be pushed, `started_at` when a
    worker began it for the first time.
    """

    page = models.ForeignKey(Page, on_delete=models.CASCADE, related_name="index_jobs")
    job = models.CharField(max_length=63, unique=True)
    enqueued_at = models.DateTimeField(default=timezone.now)
    started_at = models.DateTimeField(null=True)

    class Meta:
        ordering: ClassVar = ["-pk"]

    def __str__(self) -> str:
        return self.job
