"""Brokers with an authorizer, in which the tests' own client is a super user."""

from config.authorizer_keys import STANDARD_AUTHORIZER

AUTHORIZED = {
    "authorizer_class_name": STANDARD_AUTHORIZER,
    "super_users": "User:ANONYMOUS",
}
