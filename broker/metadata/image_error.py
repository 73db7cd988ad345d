"""The one error of images: the log is damaged, or another program made it."""

from __future__ import annotations


class ImageError(Exception):
    """A record that contradicts the records before it."""
