"""Bytes that Apache Kafka 4.3 wrote for the messages about users.

Rows of (message, version, bytes in hexadecimal) for `test_messages.py`.
"""

from protocol.messages import alter_user_scram_credentials as alter
from protocol.messages import describe_user_scram_credentials as describe

GOLDEN = [
    (describe.DescribeUserScramCredentialsRequest(users=None), 0, "0000"),
    (
        describe.DescribeUserScramCredentialsRequest(users=[describe.UserName(name="alice")]),
        0,
        "0206616c6963650000",
    ),
    (
        describe.DescribeUserScramCredentialsResponse(
            throttle_time_ms=7,
            error_message=None,
            results=[
                describe.DescribeUserScramCredentialsResult(
                    user="alice",
                    error_message=None,
                    credential_infos=[describe.CredentialInfo(mechanism=1, iterations=4096)],
                ),
                describe.DescribeUserScramCredentialsResult(
                    user="bob", error_code=91, error_message="no"
                ),
            ],
        ),
        0,
        ("000000070000000306616c696365000000020100001000000004626f62005b036e6f010000"),
    ),
    (
        alter.AlterUserScramCredentialsRequest(
            deletions=[alter.ScramCredentialDeletion(name="bob", mechanism=2)],
            upsertions=[
                alter.ScramCredentialUpsertion(
                    name="alice",
                    mechanism=1,
                    iterations=4096,
                    salt=b"salt",
                    salted_password=b"pw",
                )
            ],
        ),
        0,
        "0204626f6202000206616c69636501000010000573616c740370770000",
    ),
    (
        alter.AlterUserScramCredentialsResponse(
            throttle_time_ms=7,
            results=[
                alter.AlterUserScramCredentialsResult(user="alice", error_message=None),
                alter.AlterUserScramCredentialsResult(
                    user="bob", error_code=91, error_message="no"
                ),
            ],
        ),
        0,
        "000000070306616c6963650000000004626f62005b036e6f0000",
    ),
]
