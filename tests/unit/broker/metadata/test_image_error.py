"""One error stands for every contradiction, so that loading refuses each."""

import pytest

from broker.metadata import image, image_error
from broker.metadata.acl_image import AclImage
from protocol.acl_records import RemoveAccessControlEntryRecord


def test_the_parts_of_an_image_raise_the_same_error():
    assert image.ImageError is image_error.ImageError
    with pytest.raises(image_error.ImageError):
        AclImage().apply(RemoveAccessControlEntryRecord(id=bytes(16)))
