"""The part of the packaging that pyproject.toml cannot say: the house stands inside `barnabas`.

A wheel puts one name into site-packages, and the repository keeps its five packages at the top
(docs/decisions/0005-one-name-in-site-packages.md).
"""

from setuptools import find_packages, setup

HOUSE = ("broker", "client", "config", "protocol", "storage")
found = find_packages(include=[pattern for name in HOUSE for pattern in (name, f"{name}.*")])

setup(
    packages=["barnabas", *(f"barnabas.house.{name}" for name in found)],
    package_dir={f"barnabas.house.{name}": name for name in HOUSE},
    package_data={"barnabas.house.broker.console": ["page/*", "page/vendor/*"]},
)
