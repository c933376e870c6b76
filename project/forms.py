from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from django import forms

from project.models import Page

if TYPE_CHECKING:
    ModelForm = forms.ModelForm[Page]
else:
    ModelForm = forms.ModelForm


class PageForm(ModelForm):
    class Meta:
        model = Page
        fields: ClassVar = ["title", "path", "keywords", "body"]
        labels: ClassVar = {"body": "Text"}
        widgets: ClassVar = {
            "title": forms.TextInput(attrs={"autocomplete": "off", "autofocus": True}),
            "path": forms.TextInput(
                attrs={"autocomplete": "off", "autocapitalize": "none", "spellcheck": "false"}
            ),
            "keywords": forms.TextInput(attrs={"autocomplete": "off"}),
            "body": forms.Textarea(attrs={"rows": 18, "spellcheck": "false"}),
        }

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **{"label_suffix": "", **kwargs})
        # Source text keeps its first indent and its last line's end.
        self.fields["body"].strip = False  # type: ignore[attr-defined]

    def clean_body(self) -> str:
        """Return the text with plain line ends; browsers send CR LF, whatever was typed."""
        body: str = self.cleaned_data["body"]
        return body.replace("\r\n", "\n")
