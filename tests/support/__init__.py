"""Helpers that several tests share.

Brokers, from the fastest to the most real. Take the first that can show the fault:

    fake_connection, fake_log, fake_topics, fake_transport    stand for one part of a broker
    group_host, log_house, login_rig, metadata_node           one subsystem, assembled as it is
    memory_broker     a whole broker on a disk in memory: the nth file call is the same in every run
    broker_rig        a whole broker without sockets, on real files; rig_client, rig_fetch,
                      session_client, transaction_client, telemetry_client, quota_changes call it
    whole_broker      a broker with its sockets, in the test's own process
    broker_process    `barnabas serve` as a process; guarded_broker is what it runs, warm_process
                      forks it, two_dialects gives it a listener of each dialect
    under_test        broker_process, or Apache Kafka to check the test itself

For tests of clients, where a broker must answer wrongly or not at all:

    scripted_broker   Kafka's protocol, with scripted_acls, scripted_groups, scripted_transactions
    msgpack_peer      the msgpack dialect, with group_peer, scripted_msgpack

The rest by subject:

    clients           raw_client, tls_client, msgpack_client, http_client, console_client: they send
                      the bytes they are told to, and never retry
    disks             memory_filesystem can fail, tear and lose power; crash_states lists what a cut
                      may leave; small_disk is a real one; call_sites counts what was reached
    lives             scripted_life, transactional_life: a broker from its start to any file call
    data              batches, raw_batches (any field wrong), old_messages, segments, laid_segments,
                      laid_transactions, data_directory, rotten
    judges            history_checker, transaction_checker, log_ledger, loop_guard, failures
    nearly right      bent, msgpack_fuzz, security_fuzz, acl_filter_fuzz
    rights            rights_rig, rights_cases, rights_bodies, rights_answers, authorizing
"""
