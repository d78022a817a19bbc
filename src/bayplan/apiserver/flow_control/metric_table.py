"""The metrics of API Priority and Fairness: name without prefix -> help, labels besides level and schema, buckets. Names and texts are kube-apiserver's."""

from __future__ import annotations

from typing import Final

PREFIX: Final = "apiserver_flowcontrol_"
_SECONDS: Final = (0.0, 0.005, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 15.0, 30.0)
_LEVEL, _SCHEMA = "priority_level", "flow_schema"

HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]]] = {
    "request_wait_duration_seconds": ("Length of time a request spent waiting in its queue", ("execute",), _SECONDS),
    "request_execution_seconds": (
        "Duration of initial stage (for a WATCH) or any (for a non-WATCH) stage of request execution in the API Priority and Fairness subsystem",
        ("type",),
        _SECONDS,
    ),
    "request_queue_length_after_enqueue": (
        "Length of queue in the API Priority and Fairness subsystem, as seen by each request after it is enqueued",
        (),
        (0.0, 10.0, 25.0, 50.0, 100.0, 250.0, 500.0, 1000.0),
    ),
    "work_estimated_seats": (
        "Number of estimated seats (maximum of initial and final seats) associated with requests in API Priority and Fairness",
        (),
        (1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 100.0),
    ),
    "watch_count_samples": (
        "count of watchers for mutating requests in API Priority and Fairness",
        (),
        (0.0, 1.0, 10.0, 100.0, 1000.0, 10000.0),
    ),
}

TIMED_HISTOGRAMS: Final[dict[str, tuple[str, tuple[str, ...], tuple[float, ...]]]] = {
    "priority_level_seat_utilization": (
        "Observations, at the end of every nanosecond, of utilization of seats for any stage of execution (but only initial stage for WATCHes)",
        ("phase", _LEVEL),
        (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95, 0.99, 1.0),
    ),
    "priority_level_request_utilization": (
        "Observations, at the end of every nanosecond, of number of requests (as a fraction of the relevant limit) waiting or in any stage of execution "
        "(but only initial stage for WATCHes)",
        ("phase", _LEVEL),
        (0.0, 0.001, 0.003, 0.01, 0.03, 0.1, 0.25, 0.5, 0.75, 1.0),
    ),
    "demand_seats": (
        "Observations, at the end of every nanosecond, of (the number of seats each priority level could use) / (nominal number of seats for that level)",
        (_LEVEL,),
        (0.2, 0.4, 0.6, 0.8, 1.0, 1.2, 1.4, 1.7, 2.0, 2.8, 4.0, 6.0),
    ),
}

COUNTERS: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "rejected_requests_total": (
        "Number of requests rejected by API Priority and Fairness subsystem",
        (_LEVEL, _SCHEMA, "reason"),
    ),
    "dispatched_requests_total": (
        "Number of requests executed by API Priority and Fairness subsystem",
        (_LEVEL, _SCHEMA),
    ),
    "request_dispatch_no_accommodation_total": (
        "Number of times a dispatch attempt resulted in a non accommodation due to lack of available seats",
        (_LEVEL, _SCHEMA),
    ),
}

SCHEMA_GAUGES: Final[dict[str, str]] = {
    "current_inqueue_requests": "Number of requests currently pending in queues of the API Priority and Fairness subsystem",
    "current_inqueue_seats": "Number of seats currently pending in queues of the API Priority and Fairness subsystem",
    "current_executing_requests": "Number of requests in initial (for a WATCH) or any (for a non-WATCH) execution stage in the API Priority and Fairness subsystem",
    "current_executing_seats": "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in the "
    "API Priority and Fairness subsystem",
    "request_concurrency_in_use": "Concurrency (number of seats) occupied by the currently executing (initial stage for a WATCH, any stage otherwise) requests in "
    "the API Priority and Fairness subsystem",
}

LEVEL_GAUGES: Final[dict[str, tuple[str, tuple[str, ...]]]] = {
    "nominal_limit_seats": ("Nominal number of execution seats configured for each priority level", ()),
    "request_concurrency_limit": ("Nominal number of execution seats configured for each priority level", ()),
    "lower_limit_seats": ("Configured lower bound on number of execution seats available to each priority level", ()),
    "upper_limit_seats": ("Configured upper bound on number of execution seats available to each priority level", ()),
    "current_limit_seats": ("current derived number of execution seats available to each priority level", ()),
    "demand_seats_high_watermark": ("High watermark, over last adjustment period, of demand_seats", ()),
    "demand_seats_average": ("Time-weighted average, over last adjustment period, of demand_seats", ()),
    "demand_seats_stdev": ("Time-weighted standard deviation, over last adjustment period, of demand_seats", ()),
    "demand_seats_smoothed": ("Smoothed seat demands", ()),
    "target_seats": ("Seat allocation targets", ()),
    "current_r": ("R(time of last change)", ()),
    "dispatch_r": ("R(time of last dispatch)", ()),
    "latest_s": ("S(most recently dispatched request)", ()),
    "next_s_bounds": ("min and max, over queues, of S(oldest waiting request in queue)", ("bound",)),
    "next_discounted_s_bounds": (
        "min and max, over queues, of S(oldest waiting request in queue) - estimated work in progress",
        ("bound",),
    ),
}
