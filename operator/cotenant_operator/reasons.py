"""Reasons of conditions and events: stable words that people and programs match on. `docs/dljob.md` lists them."""

from typing import Final

# Predicted
PREDICTED: Final = "Predicted"
NO_MODEL: Final = "NoModel"
CONFIG_MAP_NOT_FOUND: Final = "ConfigMapNotFound"
GRAPH_UNREADABLE: Final = "GraphUnreadable"
MODEL_SOURCE_NOT_SUPPORTED: Final = "ModelSourceNotSupported"
UNKNOWN_GPU_MODEL: Final = "UnknownGPUModel"
OUT_OF_DOMAIN: Final = "OutOfDomain"
PREDICTION_IGNORED: Final = "PredictionIgnored"
EXTRACTION_RUNNING: Final = "ExtractionRunning"
EXTRACTION_FAILED: Final = "ExtractionFailed"
EXTRACTION_TIMED_OUT: Final = "ExtractionTimedOut"

# Queued, Placed, Ready: why nothing waits, or what it waits for
SUBMITTED: Final = "Submitted"
WAITING_FOR_SCHEDULER: Final = "WaitingForScheduler"
WAITING_FOR_ADMISSION: Final = "WaitingForAdmission"
WAITING_FOR_PLACEMENT: Final = "WaitingForPlacement"
PLACED: Final = "Placed"
PODS_READY: Final = "PodsReady"
PODS_NOT_READY: Final = "PodsNotReady"
PODS_NOT_STARTING: Final = "PodsNotStarting"
PODS_STARTING: Final = "PodsStarting"
PODS_LOST: Final = "PodsLost"
ROLLING_OUT: Final = "RollingOut"
SCALED_TO_ZERO: Final = "ScaledToZero"

# Current
SPEC_APPLIED: Final = "SpecApplied"
SPEC_CHANGE_IGNORED: Final = "SpecChangeIgnored"
DRIFTED: Final = "Drifted"

# Nothing is created
PREDICTION_PENDING: Final = "PredictionPending"
PREDICTION_MISSING: Final = "PredictionMissing"
MAY_BE_ROOT: Final = "MayBeRoot"
PACKING_POLICY_MISSING: Final = "PackingPolicyMissing"
PREVIOUS_PODS_ENDING: Final = "PreviousPodsEnding"
SPEC_CHANGED: Final = "SpecChanged"
RESTART_BACKOFF: Final = "RestartBackoff"
INVALID_SPEC: Final = "InvalidSpec"
INVALID_TEMPLATE: Final = "InvalidTemplate"
QUOTA_EXCEEDED: Final = "QuotaExceeded"
CREATION_FORBIDDEN: Final = "CreationForbidden"
POD_CREATION_FAILED: Final = "PodCreationFailed"
NAME_TAKEN: Final = "NameTaken"
CONTESTED: Final = "Contested"
SERVICE_FAILED: Final = "ServiceFailed"

# Queued, Ready and the end of a sweep
RUNS_UNDER_WAY: Final = "RunsUnderWay"
RUNS_FAILED: Final = "RunsFailed"
RUNS_STALLED: Final = "RunsStalled"

# Suspended
SUSPENDED: Final = "Suspended"
RESUMED: Final = "Resumed"

# Stalled
PROGRESSING: Final = "Progressing"
RECONCILE_ERROR: Final = "ReconcileError"

# Complete and Failed
COMPLETED: Final = "Completed"
SUCCESS_POLICY: Final = "SuccessPolicy"
DEADLINE_EXCEEDED: Final = "DeadlineExceeded"
BACKOFF_LIMIT_EXCEEDED: Final = "BackoffLimitExceeded"
OUT_OF_MEMORY: Final = "OutOfMemory"
POD_FAILURE_POLICY: Final = "PodFailurePolicy"
ATTEMPT_UNREADABLE: Final = "AttemptUnreadable"

# Events alone
CREATED: Final = "Created"
UPDATED: Final = "Updated"
ATTEMPT_FAILED: Final = "AttemptFailed"
SUSPECTED: Final = "SuspectedOfFault"
PROFILED: Final = "Profiled"
STATUS_UNREADABLE: Final = "StatusUnreadable"
