"""The plugin of the kit, as if it were installed: its fixtures and hooks."""

from pytest_barnabas.plugin import (  # noqa: F401
    barnabas,
    barnabas_session,
    barnabas_settings,
    pytest_configure,
    pytest_runtest_call,
    pytest_runtest_makereport,
)
