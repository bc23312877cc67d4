"""The application `sessile.django`, whose system checks look at the settings."""

from django.apps import AppConfig
from django.core.checks import Tags, register


class SessileConfig(AppConfig):
    name = "sessile.django"
    label = "sessile"
    verbose_name = "Sessile"

    def ready(self) -> None:
        from .checks import check_settings

        register(Tags.security)(check_settings)
