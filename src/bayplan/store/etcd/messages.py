"""The messages of etcd's v3 API that the client uses, made at run time from a table of their fields.

Source: `api/etcdserverpb/rpc.proto`, `api/mvccpb/kv.proto` and `api/authpb` of etcd 3.4 to 3.6. Enumerations are int32: their numbers stand beside the table.
"""

from __future__ import annotations

from typing import Any, Final

from bayplan.support.grpc.message_tables import message_classes

_TABLE: Final = {
    "ResponseHeader": "cluster_id: uint64, member_id: uint64, revision: int64, raft_term: uint64",
    "KeyValue": "key: bytes, create_revision: int64, mod_revision: int64, version: int64, value: bytes, lease: int64",
    "Event": "type: int32, kv: KeyValue, prev_kv: KeyValue",
    "RangeRequest": (
        "key: bytes, range_end: bytes, limit: int64, revision: int64, sort_order: int32, sort_target: int32, serializable: bool, "
        "keys_only: bool, count_only: bool"
    ),
    "RangeResponse": "header: ResponseHeader, kvs: [KeyValue], more: bool, count: int64",
    "PutRequest": "key: bytes, value: bytes, lease: int64, prev_kv: bool, ignore_value: bool, ignore_lease: bool",
    "PutResponse": "header: ResponseHeader, prev_kv: KeyValue",
    "DeleteRangeRequest": "key: bytes, range_end: bytes, prev_kv: bool",
    "DeleteRangeResponse": "header: ResponseHeader, deleted: int64, prev_kvs: [KeyValue]",
    "RequestOp": (
        "request_range: RangeRequest of request, request_put: PutRequest of request, request_delete_range: DeleteRangeRequest of request, "
        "request_txn: TxnRequest of request"
    ),
    "ResponseOp": (
        "response_range: RangeResponse of response, response_put: PutResponse of response, "
        "response_delete_range: DeleteRangeResponse of response, response_txn: TxnResponse of response"
    ),
    "Compare": (
        "result: int32, target: int32, key: bytes, version: int64 of target_union, create_revision: int64 of target_union, "
        "mod_revision: int64 of target_union, value: bytes of target_union, lease: int64 of target_union"
    ),
    "TxnRequest": "compare: [Compare], success: [RequestOp], failure: [RequestOp]",
    "TxnResponse": "header: ResponseHeader, succeeded: bool, responses: [ResponseOp]",
    "CompactionRequest": "revision: int64, physical: bool",
    "CompactionResponse": "header: ResponseHeader",
    "WatchRequest": (
        "create_request: WatchCreateRequest of request_union, cancel_request: WatchCancelRequest of request_union, "
        "progress_request: WatchProgressRequest of request_union"
    ),
    "WatchCreateRequest": (
        "key: bytes, range_end: bytes, start_revision: int64, progress_notify: bool, filters: [int32], prev_kv: bool, watch_id: int64, "
        "fragment: bool"
    ),
    "WatchCancelRequest": "watch_id: int64",
    "WatchProgressRequest": "",
    "WatchResponse": (
        "header: ResponseHeader, watch_id: int64, created: bool, canceled: bool, compact_revision: int64, cancel_reason: string, fragment: bool, "
        "-, -, -, events: [Event]"
    ),
    "LeaseGrantRequest": "ttl: int64, id: int64",
    "LeaseGrantResponse": "header: ResponseHeader, id: int64, ttl: int64, error: string",
    "LeaseRevokeRequest": "id: int64",
    "LeaseRevokeResponse": "header: ResponseHeader",
    "LeaseKeepAliveRequest": "id: int64",
    "LeaseKeepAliveResponse": "header: ResponseHeader, id: int64, ttl: int64",
    "LeaseTimeToLiveRequest": "id: int64, keys: bool",
    "LeaseTimeToLiveResponse": "header: ResponseHeader, id: int64, ttl: int64, granted_ttl: int64, keys: [bytes]",
    "AuthenticateRequest": "name: string, password: string",
    "AuthenticateResponse": "header: ResponseHeader, token: string",
    "StatusRequest": "",
    "StatusResponse": (
        "header: ResponseHeader, version: string, db_size: int64, leader: uint64, raft_index: uint64, raft_term: uint64, raft_applied_index: uint64, "
        "errors: [string], db_size_in_use: int64, is_learner: bool"
    ),
    "Member": "id: uint64, name: string, peer_urls: [string], client_urls: [string], is_learner: bool",
    "MemberListRequest": "linearizable: bool",
    "MemberListResponse": "header: ResponseHeader, members: [Member]",
    "AlarmRequest": "action: int32, member_id: uint64, alarm: int32",
    "AlarmMember": "member_id: uint64, alarm: int32",
    "AlarmResponse": "header: ResponseHeader, alarms: [AlarmMember]",
    "DefragmentRequest": "",
    "DefragmentResponse": "header: ResponseHeader",
    "SnapshotRequest": "",
    "SnapshotResponse": "header: ResponseHeader, remaining_bytes: uint64, blob: bytes",
}

MESSAGES: Final[dict[str, Any]] = message_classes("etcdserverpb", _TABLE)
"""Class of each message, by its name in etcd."""

EVENT_DELETE: Final = 1
"""mvccpb.Event.EventType"""
COMPARE_EQUAL: Final = 0
TARGET_VERSION, TARGET_MOD = 0, 2
"""Compare.CompareResult and CompareTarget"""
FILTER_PUT, FILTER_DELETE = 0, 1
"""WatchCreateRequest.FilterType: what is left out"""
ALARM_GET, ALARM_DEACTIVATE = 0, 2
"""AlarmRequest.AlarmAction"""
ALARM_NAMES: Final = {1: "NOSPACE", 2: "CORRUPT"}

KV: Final = "/etcdserverpb.KV/"
WATCH: Final = "/etcdserverpb.Watch/Watch"
LEASE: Final = "/etcdserverpb.Lease/"
MAINTENANCE: Final = "/etcdserverpb.Maintenance/"
CLUSTER: Final = "/etcdserverpb.Cluster/"
AUTHENTICATE: Final = "/etcdserverpb.Auth/Authenticate"
