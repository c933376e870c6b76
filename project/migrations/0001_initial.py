from __future__ import annotations

from typing import ClassVar

import django.core.validators
import django.db.models.deletion
import django.utils.timezone
from django.db import migrations, models

import project.models


class Migration(migrations.Migration):
    initial = True

    dependencies: ClassVar = []

    operations: ClassVar = [
        migrations.CreateModel(
            name="Page",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                (
                    "path",
                    models.CharField(
                        help_text="The page's address, such as guide/getting-started.",
                        max_length=200,
                        unique=True,
                        validators=[project.models.PATH],
                    ),
                ),
                ("title", models.CharField(max_length=200)),
                (
                    "keywords",
                    models.CharField(
                        blank=True,
                        help_text="Words to find the page by that its text lacks.",
                        max_length=200,
                    ),
                ),
                ("saved_at", models.DateTimeField(auto_now=True)),
                ("indexed_at", models.DateTimeField(editable=False, null=True)),
                (
                    "body",
                    models.TextField(
                        blank=True,
                        validators=[django.core.validators.MaxLengthValidator(4 * 1024 * 1024)],
                    ),
                ),
            ],
            options={
                "ordering": ["path"],
                "indexes": [models.Index(fields=["indexed_at"], name="page_indexed_at")],
            },
        ),
        migrations.CreateModel(
            name="IndexJob",
            fields=[
                (
                    "id",
                    models.BigAutoField(
                        auto_created=True, primary_key=True, serialize=False, verbose_name="ID"
                    ),
                ),
                ("job", models.CharField(max_length=63, unique=True)),
                ("enqueued_at", models.DateTimeField(default=django.utils.timezone.now)),
                ("started_at", models.DateTimeField(null=True)),
                (
                    "page",
                    models.ForeignKey(
                        on_delete=django.db.models.deletion.CASCADE,
                        related_name="index_jobs",
                        to="project.page",
                    ),
                ),
            ],
            options={"ordering": ["-pk"]},
        ),
        # The search index is no model: SQLite keeps it, only project.search reads and writes it.
        migrations.RunSQL(
            "CREATE VIRTUAL TABLE project_search"
            " USING fts5(title, path, keywords, body, tokenize = 'unicode61')",
            "DROP TABLE project_search",
        ),
    ]
