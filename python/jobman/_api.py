"""The types and operations of the HTTP API of jobman. Generated from docs/openapi.json: `npm run reference`."""

# mypy: warn_return_any=False

from __future__ import annotations

from typing import Any, Dict, Iterator, List, Literal, Optional, Sequence, TypedDict, Union

from jobman._http import Blob, Connection, LogPart, Rows

ErrorCode = Literal["failed", "usage", "invalid_manifest", "not_found", "conflict", "changed", "confirmation_required", "forbidden", "unauthenticated", "unreachable", "interrupted"]

# A mistake in a manifest.
ManifestProblem = TypedDict("ManifestProblem", {
    # The manifest's path as typed.
    "file": "str",
    # From 1; null if the problem is not in the text (`--set`, or a file that could not be read).
    "line": "Union[float, None]",
    "column": "Union[float, None]",
    # `command.workers[1]`; empty for the whole file.
    "key": "str",
    "message": "str",
    # The known name nearest to the typed one.
    "suggestion": "Union[str, None]",
    # The `--set` argument with the problem; null for a problem in the file.
    "set": "Union[str, None]",
})

Problem = TypedDict("Problem", {
    "type": "Literal[\"about:blank\"]",
    # The reason phrase of the status.
    "title": "str",
    "status": "float",
    # The message of the error. The members below are its other fields.
    "detail": "str",
    "code": "ErrorCode",
    "exitCode": "float",
    "lines": "List[str]",
    "problems": "List[ManifestProblem]",
    "reasons": "List[str]",
    "refusedFor": "Union[str, None]",
    # After this number of seconds the same request may succeed. Set if the server, a database or a cloud was not available.
    "retryAfter": "Union[float, None]",
})

AccessChange_1 = TypedDict("AccessChange_1", {
    "kind": "Literal[\"role\"]",
    "role": "Role",
})

AccessChange_2 = TypedDict("AccessChange_2", {
    "kind": "Literal[\"logins\"]",
    "logins": "List[str]",
})

AccessChange_3 = TypedDict("AccessChange_3", {
    "kind": "Literal[\"account\"]",
    "account": "Union[str, None]",
})

AccessChange_4 = TypedDict("AccessChange_4", {
    "kind": "Literal[\"disable\", \"enable\"]",
})

AccessChange_5_limits = TypedDict("AccessChange_5_limits", {
    # Chips that the TPUs of the jobs may have at once. Persistent TPUs do not count.
    "chips": "Union[float, None]",
    # Unfinished jobs.
    "jobs": "Union[float, None]",
    # Estimated US dollars for TPUs in each day of UTC.
    "usdPerDay": "Union[float, None]",
    # Projects of Google Cloud.
    "projects": "Union[List[str], None]",
    # Contexts of the kubeconfig, and namespaces of them as `context/namespace`.
    "clusters": "Union[List[str], None]",
    # Hosts of the settings; `localhost` is the machine of the controller. Null: all hosts, but through a server not `localhost`.
    "hosts": "Union[List[str], None]",
    # Tokens that count at once.
    "tokens": "Union[float, None]",
    # MiB of files that the user has sent to a server and that it stores.
    "filesMib": "Union[float, None]",
}, total=False)

AccessChange_5 = TypedDict("AccessChange_5", {
    "kind": "Literal[\"limits\"]",
    "limits": "AccessChange_5_limits",
})

# `limits`: an absent limit does not change.
AccessChange = Union['AccessChange_1', 'AccessChange_2', 'AccessChange_3', 'AccessChange_4', 'AccessChange_5']

ActionAnswer_1 = TypedDict("ActionAnswer_1", {
    "answer": "Literal[\"allow\"]",
})

ActionAnswer_2 = TypedDict("ActionAnswer_2", {
    "answer": "Literal[\"confirm\", \"deny\"]",
    "cause": "Literal[\"permission\", \"state\"]",
    "message": "str",
})

ActionAnswer = Union['ActionAnswer_1', 'ActionAnswer_2']

# The token of the call; absent for a login.
Actor_token = TypedDict("Actor_token", {
    "id": "str",
    "name": "str",
})

_Actor = TypedDict("_Actor", {
    "user": "UserName",
    "role": "Role",
    "via": "Literal[\"local\", \"token\", \"session\"]",
    # Logins whose jobs are the actor's own: those of the user, and the one of this process. Empty for a token.
    "logins": "List[str]",
})
_Actor_optional = TypedDict("_Actor_optional", {
    # The login that performs the call, unless it is known to be the user's or owns the home.
    "otherLogin": "str",
    # The login of this machine that performs the call; absent for a token.
    "login": "str",
    # Projects of Google Cloud that the user of the token may use; null for all. Absent for a login, which has its own.
    "projects": "Union[List[str], None]",
    # Clusters of the server that the user of the token may use, as in `UserLimits`; null for all.
    "clusters": "Union[List[str], None]",
    # MiB of files that the user of the token may store on the server; null without a limit.
    "filesMib": "Union[float, None]",
    # An admin lets the user of the token run programs on the machine of the server.
    "mayUseServerMachine": "Literal[True]",
    # The token of the call; absent for a login.
    "token": "Actor_token",
    # As in `User`.
    "isDisabled": "Literal[True]",
}, total=False)


# A user who performs calls. Every client is bound to one actor.
class Actor(_Actor, _Actor_optional):
    pass


# The observable states of an allocation. `AllocationStatus` explains each.
AllocationState = Literal["absent", "waiting", "provisioning", "ready", "interrupted", "lost", "releasing", "foreign"]

_AllocationStatus = TypedDict("_AllocationStatus", {
    "state": "AllocationState",
    # The cloud's own state, for people: `WAITING_FOR_RESOURCES`, `PREEMPTED`.
    "detail": "str",
})
_AllocationStatus_optional = TypedDict("_AllocationStatus_optional", {
    # With `lost`. A preemption is the cloud's act; a failure has an error.
    "cause": "Literal[\"preempted\", \"failed\"]",
    "error": "CloudError",
    # Each slice, for the usage ledger. Absent: one slice, in this state.
    "slices": "List[SliceState]",
    # With `ready`: the number of workers and their addresses.
    "workers": "float",
    "hosts": "List[Host]",
    # Persistent only, absent without a node: the creation time in the cloud. Tells it from a later one of that name.
    "creationTime": "str",
}, total=False)


# - absent: it does not exist - waiting: requested, and no machine exists yet - provisioning: the machines are being created - ready: usable - interrupted: returns by itself (maintenance, restart) - lost: never usable again (preempted, terminated, failed, suspended); it must be released - releasing: its deletion is in progress - foreign: the resource of that name is not ours
class AllocationStatus(_AllocationStatus, _AllocationStatus_optional):
    pass


AllocationView_workers_item = TypedDict("AllocationView_workers_item", {
    "worker": "float",
    "internalIp": "Union[str, None]",
    "externalIp": "Union[str, None]",
})

# Capacity requested or held for a job.
AllocationView = TypedDict("AllocationView", {
    # From 1.
    "allocation": "float",
    # Its name in the cloud.
    "name": "str",
    "ownership": "Literal[\"ephemeral\", \"persistent\"]",
    # `refused`: it was never created. Otherwise the last observed state.
    "state": "Union[AllocationState, Literal[\"planned\"], Literal[\"requested\"], Literal[\"refused\"], Literal[\"gone\"]]",
    # The cloud's last status or error, with its age; null if the allocation is ready, gone or not requested yet.
    "message": "Union[str, None]",
    "requestedAt": "Union[Instant, None]",
    "readyAt": "Union[Instant, None]",
    "releasedAt": "Union[Instant, None]",
    "goneAt": "Union[Instant, None]",
    "workers": "List[AllocationView_workers_item]",
})

AlternativeAnswer = TypedDict("AlternativeAnswer", {
    "alternative": "float",
    # `ready`: it provided an allocation.
    "answer": "Union[CapacityAnswer, Literal[\"ready\"]]",
    "at": "Instant",
})

_ArchivedJob = TypedDict("_ArchivedJob", {
    "job": "ClusterJob",
    # All pods ever observed, oldest first; a deleted pod keeps its last observation.
    "pods": "List[ClusterPod]",
    "events": "List[ClusterEvent]",
    "server": "str",
    "context": "str",
    "observedAt": "Instant",
    # Time of the first observation without the job; null while it may exist.
    "goneAt": "Union[Instant, None]",
    # The job left the list; its logs and history remain available by its name until `clean`.
    "hidden": "bool",
    # The submitted Job as JSON; null if it was not submitted from this installation.
    "object": "Union[str, None]",
    "logs": "List[ArchivedLog]",
})
_ArchivedJob_optional = TypedDict("_ArchivedJob_optional", {
    # The own price of its flavor when the job was first observed; null without one. Absent before, and in older records.
    "flavorPrice": "Union[FlavorPrice, None]",
}, total=False)


class ArchivedJob(_ArchivedJob, _ArchivedJob_optional):
    pass


# The newest whole line of a copy.
ArchivedLine = TypedDict("ArchivedLine", {
    "pod": "str",
    "container": "str",
    "line": "str",
    "at": "Instant",
})

ArchivedLog = TypedDict("ArchivedLog", {
    "pod": "str",
    "container": "str",
    "state": "ArchivedLogState",
})

# State of the copy. `truncated`: the pod was gone before the copy reached the end of the log.
ArchivedLogState = Literal["open", "complete", "truncated"]

# An attempt that has started.
AttemptMetrics = TypedDict("AttemptMetrics", {
    "attempt": "float",
    "stage": "float",
    "startedAt": "Union[Instant, None]",
    "endedAt": "Union[Instant, None]",
    # Null until it ends.
    "reason": "Union[Reason, None]",
    # The worker whose metrics these are; null without metrics.
    "worker": "Union[WorkerId, None]",
    "firstStep": "Union[float, None]",
    "lastStep": "Union[float, None]",
    # The last step of all, if the program names it.
    "totalSteps": "Union[float, None]",
    # Between its first and its last step; null with fewer than 5 steps or less than 30 seconds.
    "stepsPerSecond": "Union[float, None]",
})

AttemptView = TypedDict("AttemptView", {
    # From 1.
    "attempt": "float",
    "stage": "float",
    "startMode": "Literal[\"fresh\", \"resume\", \"rerun\"]",
    "startedBy": "Literal[\"owner\", \"rule\"]",
    # True if the attempt runs only the command, on workers that were ready, without setup steps.
    "commandOnly": "bool",
    "allocation": "float",
    "workers": "List[WorkerId]",
    "createdAt": "Instant",
    # End of the backoff: neither a request nor a start happens before it.
    "notBeforeAt": "Instant",
    "startedAt": "Union[Instant, None]",
    # Time at which jobman decided to end the attempt or observed its end. The time from here to `endedAt` is lost.
    "endingAt": "Union[Instant, None]",
    "endedAt": "Union[Instant, None]",
    # Null until it ends.
    "reason": "Union[Reason, None]",
    "evidence": "Union[Evidence, None]",
    "exits": "List[Exit]",
    # The copy of the working directory that it runs.
    "workdirCopy": "Union[float, None]",
})

# `failed`: it has failed. `silent`: a worker does not answer. `unchecked`: the cloud has not answered for 5 minutes. `budget`: its budget or its owner's is nearly used up. `long_wait`: it has waited for capacity for longer than 9 of 10 similar jobs, and for at least 10 minutes.
Attention = Literal["failed", "silent", "unchecked", "budget", "long_wait"]

AuditObject = TypedDict("AuditObject", {
    "kind": "Literal[\"job\", \"cluster_job\", \"user\", \"token\", \"secret\", \"project\", \"tpu\", \"recipient\"]",
    # The id or the name; for a TPU the resource name.
    "id": "str",
})

AuditRow_token_1 = TypedDict("AuditRow_token_1", {
    # The id of the token.
    "id": "str",
    "name": "str",
})

AuditRow = TypedDict("AuditRow", {
    "at": "Instant",
    # The user who made the request.
    "actor": "UserName",
    # The role in which the user made it.
    "role": "Role",
    # The login of the machine; null for a token.
    "login": "Union[str, None]",
    # The token; null for a login.
    "token": "Union[AuditRow_token_1, None]",
    # A command of a job such as `cancel`, or the name of another operation such as `change-user`.
    "operation": "str",
    # The object of the request; null without one.
    "object": "Union[AuditObject, None]",
    # `denied`: refused by role, owner or limit. `failed`: permitted, but the operation failed.
    "outcome": "Literal[\"allowed\", \"denied\", \"failed\"]",
    # More about the request, such as the new role of a user.
    "detail": "Dict[str, AuditValue]",
    # The number of the row, from 1, in the order of the requests.
    "seq": "float",
})

AuditValue = Union[str, float, bool, None, List[str]]

# Source of a supervised job's capacity. Kubernetes jobs live in their cluster and are not supervised.
BackendName = Literal["hosts", "tpu"]

# A charge in one currency. Amounts in different currencies are never added.
BilledAmount = TypedDict("BilledAmount", {
    # `USD`, `EUR`.
    "currency": "str",
    # Before credits.
    "costAmount": "float",
    # Discounts and other credits: negative.
    "creditsAmount": "float",
    # The sum of both: what Google charges.
    "netAmount": "float",
})

BillingAnswer = TypedDict("BillingAnswer", {
    "report": "BillingReport",
    # Null without an export: the report has estimates only.
    "source": "Union[BillingSourceView, None]",
    # The kinds of usage in this period that Google's TPU estimates leave out.
    "leftOut": "List[UsageKind]",
})

# Billed and estimated costs of the TPUs of jobs on the same days, in US dollars.
BillingComparison = TypedDict("BillingComparison", {
    # Charged for resources with the label of a job. Null without an export or without a conversion rate.
    "billedUsd": "Union[float, None]",
    # By list prices or prices of the settings. Null if nothing has a price.
    "estimateUsd": "Union[float, None]",
    # Allocated time without a price: the estimate does not contain it.
    "unpricedMs": "Duration",
    # Billed minus estimated. Null if one of them is missing.
    "differenceUsd": "Union[float, None]",
})

# A field that the report is not grouped by is null.
BillingGroup = TypedDict("BillingGroup", {
    # `2026-11-20`, in UTC.
    "day": "Union[str, None]",
    # Google's name of the service: `Cloud TPU`.
    "service": "Union[str, None]",
    # Google's description of the SKU.
    "sku": "Union[str, None]",
    # The owner of the job; null for charges without a job of this installation.
    "user": "Union[str, None]",
    # Id of the job; null for charges without a job of this installation.
    "job": "Union[str, None]",
    # Name of the job.
    "name": "Union[str, None]",
    # One entry for each currency; empty if the export has no charge.
    "billed": "List[BilledAmount]",
    # Null for services and SKUs, which an estimate does not have, and if nothing can be compared.
    "comparison": "Union[BillingComparison, None]",
})

BillingGrouping = Literal["day", "service", "sku", "user", "job"]

BillingReport_compared_1 = TypedDict("BillingReport_compared_1", {
    "since": "Instant",
    "until": "Instant",
})

BillingReport = TypedDict("BillingReport", {
    # The kinds of the groups.
    "by": "List[BillingGrouping]",
    "since": "Instant",
    "until": "Instant",
    # In the order of days, then the most expensive first.
    "groups": "List[BillingGroup]",
    "billed": "List[BilledAmount]",
    # Null if nothing can be compared.
    "comparison": "Union[BillingComparison, None]",
    # The days that are compared: from the first usage in the export to the last day that is complete. Null for none.
    "compared": "Union[BillingReport_compared_1, None]",
    # Dates of the price tables of the estimates, and `settings`; sorted.
    "prices": "List[str]",
})

# The export that was read.
BillingSourceView = TypedDict("BillingSourceView", {
    # Rows of an unexpected form; their amounts are not included.
    "unreadableRows": "float",
    # Start of the first usage at or after `since` in the export; null if it has none.
    "firstUsageAt": "Union[Instant, None]",
    # Time of the newest export of usage at or after `since`; null if the export has none.
    "exportedAt": "Union[Instant, None]",
    # Bytes that the queries read.
    "bytesRead": "float",
    # Bytes that Google charges for the queries; 0 for an answer from BigQuery's cache.
    "bytesCharged": "float",
    # `project.dataset.table`.
    "table": "str",
})

# Of one request over HTTP. The client in TypeScript sends several requests for more.
BlobDigests = List['Digest']

BlockedBy = TypedDict("BlockedBy", {
    "kind": "WaitKind",
    # The name of the host or TPU, or the ids of the jobs; null for the other kinds.
    "object": "Union[str, None]",
    # The end of the backoff; null for the other kinds.
    "untilAt": "Union[Instant, None]",
})

Booking = TypedDict("Booking", {
    # The full name if the registry knows the sheet's name, else the sheet's name.
    "tpu": "str",
    "alias": "str",
    "status": "BookingStatus",
    # The sheet name of the user; empty if free.
    "user": "str",
    "note": "str",
    # The note of `tpu run`, or the cloud's state.
    "scriptNote": "str",
    "owner": "str",
    "zone": "str",
    # The time of its latest change; null if it has none, and in a spreadsheet.
    "changedAt": "Union[Instant, None]",
    # The user who made that change; null if a job made it, or if it is not known.
    "changedBy": "Union[UserName, None]",
})

BookingStatus_1 = TypedDict("BookingStatus_1", {
    "kind": "Literal[\"free\", \"running\", \"reserved\", \"gone\"]",
})

BookingStatus_2 = TypedDict("BookingStatus_2", {
    "kind": "Literal[\"unknown\"]",
    "text": "str",
})

# `unknown`: a status that jobman does not understand, kept in `text`.
BookingStatus = Union['BookingStatus_1', 'BookingStatus_2']

BucketAnswer = TypedDict("BucketAnswer", {
    "statuses": "List[BucketStatus]",
    # A message for the user about a program that was started for the answer; null: none was.
    "notice": "Union[str, None]",
})

BucketLocation = TypedDict("BucketLocation", {
    # `us-central2`, `us`, `nam4`; in lower case, as zones are written.
    "location": "str",
    # `region`, `dual-region`, `multi-region`, `zone`. Null if unknown.
    "kind": "Union[str, None]",
    # Its regions: the two that the owner of a dual-region bucket chose, or its one zone. Empty if unknown.
    "parts": "List[str]",
})

BucketRow = TypedDict("BucketRow", {
    "project": "str",
    # The name of the bucket.
    "bucket": "str",
    # `us-central2`, `us`, `nam4`; null if unknown.
    "location": "Union[str, None]",
    # The class of new objects, such as `STANDARD`; null if unknown.
    "storageClass": "Union[str, None]",
    "createdAt": "Union[Instant, None]",
    # The size of all objects. Null while it is not known, which does not mean empty.
    "bytes": "Union[float, None]",
    # The number of objects; null while it is not known.
    "objects": "Union[float, None]",
    # The difference between the newest daily value of the metric and the one of a week before; null without both.
    "growth7dBytes": "Union[float, None]",
    # The same over 30 days.
    "growth30dBytes": "Union[float, None]",
    # `metric`: Cloud Monitoring. `listing`: jobman has counted the objects. Null without a size.
    "source": "Literal[\"metric\", \"listing\", None]",
    # Time of the count. For a metric the end of the day of its newest point: the measurement may be a day older.
    "measuredAt": "Union[Instant, None]",
    # True if the count ended early: `bytes` and `objects` are lower limits.
    "partial": "bool",
    # True if there is no size because it could not be read. False if Google has not measured the bucket yet.
    "sizeUnread": "bool",
    # Zones in use from which reads leave the bucket's region.
    "zonesOutside": "List[str]",
    # True for a bucket of the TPU emulator.
    "simulated": "bool",
})

BucketStatus_1 = TypedDict("BucketStatus_1", {
    "kind": "Literal[\"present\"]",
    "location": "BucketLocation",
})

BucketStatus_2 = TypedDict("BucketStatus_2", {
    "kind": "Literal[\"unlocated\"]",
})

BucketStatus_3 = TypedDict("BucketStatus_3", {
    "kind": "Literal[\"absent\"]",
})

BucketStatus_4 = TypedDict("BucketStatus_4", {
    "kind": "Literal[\"unknown\"]",
    "reason": "str",
})

BucketStatus = Union['BucketStatus_1', 'BucketStatus_2', 'BucketStatus_3', 'BucketStatus_4']

# Periods of the calendar in UTC; a week begins on Monday.
BudgetPeriod = Literal["day", "week", "month"]

# A budget that limits the job. Amounts are estimates in US dollars.
BudgetView = TypedDict("BudgetView", {
    # By the job since its owner's newest start; by its owner since the beginning of the period.
    "spentUsd": "float",
    "budgetUsd": "float",
    # The budget of a grant that all jobs of the owner share; null for `job.budget`.
    "ownerBudget": "Union[OwnerBudget, None]",
    # Time at which it is used up if nothing changes; null while nothing is charged, and once it is used up.
    "usedUpAt": "Union[Instant, None]",
})

# Answer of an alternative without capacity: the kind of its refusal, or `waiting` if the request waited too long.
CapacityAnswer = Union['CloudErrorKind', Literal["waiting"]]

# The requested capacity. `kind` names the backend; no other code tests a backend's name.
CapacitySpec = Union['HostsSpec', 'TpuSpec']

Change_1 = TypedDict("Change_1", {
    "kind": "Literal[\"event\"]",
    "job": "str",
    "seq": "float",
    "event": "Event",
    "cursor": "Cursor",
})

Change_2 = TypedDict("Change_2", {
    "kind": "Literal[\"jobs\"]",
    "cursor": "Cursor",
})

Change_3 = TypedDict("Change_3", {
    "kind": "Literal[\"log\"]",
    "log": "LogRef",
    "cursor": "Cursor",
})

# One of: an event of a job; a hint that views of jobs may have changed, after which a client reads those that it shows again; a log that has grown. A log may be reported again after a cursor.
Change = Union['Change_1', 'Change_2', 'Change_3']

ChangedBooking = TypedDict("ChangedBooking", {
    "before": "Booking",
    "after": "Booking",
})

# `changed` is false if the user already was as requested.
ChangedUser = TypedDict("ChangedUser", {
    "user": "UserView",
    "changed": "bool",
})

CheckRow = TypedDict("CheckRow", {
    "window": "Union[float, None]",
    "job": "str",
    "attempt": "float",
    "tag": "Union[str, None]",
    "stage": "float",
    # Window numbers of the lineage, its own first: `12 < 11 < 9`.
    "lineage": "List[float]",
    "directory": "str",
    "folder": "str",
    "tpu": "str",
    "tpuShort": "str",
    "status": "CheckStatus",
    "since": "Instant",
    # The newest output; empty without a log.
    "message": "str",
    # True if the user closed its tmux window. Then no rule follows its end.
    "windowClosed": "bool",
})

CheckStatus_1 = TypedDict("CheckStatus_1", {
    "kind": "Literal[\"succeeded\", \"killed\", \"stopped\"]",
})

CheckStatus_2 = TypedDict("CheckStatus_2", {
    "trouble": "Union[str, None]",
    # The time when the silent program counts as hung and is ended; null if no limit applies.
    "hangsAt": "Union[Instant, None]",
    "kind": "Literal[\"starting\"]",
    "waitReason": "Union[str, None]",
})

CheckStatus_3 = TypedDict("CheckStatus_3", {
    "trouble": "Union[str, None]",
    # The time when the silent program counts as hung and is ended; null if no limit applies.
    "hangsAt": "Union[Instant, None]",
    "kind": "Literal[\"running\"]",
    "phase": "str",
    # A worker that does not answer, as in `list`; null while all answer.
    "waitReason": "Union[str, None]",
})

CheckStatus_4 = TypedDict("CheckStatus_4", {
    "kind": "Literal[\"error\"]",
    "error": "str",
    "detail": "str",
    "next": "Literal[\"resume\", \"rerun\", None]",
    # The reason why the next attempt waits, as in `list`; null until that attempt exists.
    "waitReason": "Union[str, None]",
})

CheckStatus_5 = TypedDict("CheckStatus_5", {
    "kind": "Literal[\"resumed\", \"rerunned\"]",
    "error": "Union[str, None]",
    "child": "float",
})

# `resumed`, `rerunned`: another attempt continues the work in window `child`, once it has a window.
CheckStatus = Union['CheckStatus_1', 'CheckStatus_2', 'CheckStatus_3', 'CheckStatus_4', 'CheckStatus_5']

# The result so far.
CheckpointReport = TypedDict("CheckpointReport", {
    "counted": "CountProgress",
    "rows": "List[CheckpointRow]",
    "problems": "List[StorageProblem]",
    # Ids of jobs whose folders cannot be listed from this machine.
    "unlisted": "List[str]",
})

# A checkpoint folder of a job, or of several jobs.
CheckpointRow = TypedDict("CheckpointRow", {
    # Ids of the jobs, newest first.
    "jobs": "List[str]",
    # The name of the newest job.
    "name": "str",
    # The owner of the newest job.
    "owner": "str",
    # The phase of the newest job; `deleted` after it has left the list.
    "phase": "str",
    # `gs://my-bucket/runs/000001-k3x9ab`, or an absolute path on this machine.
    "folder": "str",
    # The size of all files; null if the folder could not be read.
    "bytes": "Union[float, None]",
    # The number of files; null if the folder could not be read.
    "files": "Union[float, None]",
    # The newest change of a file; null without files.
    "newestAt": "Union[Instant, None]",
    # True if it was not read completely: `bytes` and `files` are lower limits.
    "partial": "bool",
    # False only if it is certain that no job of this installation needs it.
    "needed": "bool",
    # True if the folder could not be read completely, so that jobman assumes that it is needed.
    "assumed": "bool",
    # The reason, for people.
    "message": "str",
    # The command that removes the folder; null for one that is needed, has no files or may not be named in a command.
    "removeCommand": "Union[str, None]",
})

# The newest checkpoint that the machine of jobman can see. An attempt that resumed now would get it.
CheckpointView = TypedDict("CheckpointView", {
    "name": "str",
    "folder": "HostPath",
    "savedAt": "Instant",
})

_CloudError = TypedDict("_CloudError", {
    "kind": "CloudErrorKind",
    "message": "str",
    "raw": "str",
})
_CloudError_optional = TypedDict("_CloudError_optional", {
    # With `unreachable`: a missing login caused it.
    "noLogin": "Literal[True]",
    # With `permission`: the Google API that is disabled in the project, such as `tpu.googleapis.com`.
    "disabledService": "str",
}, total=False)


# A refusal by the cloud. Rules use `kind`. `message` is one sentence for people, `raw` is the cloud's own text.
class CloudError(_CloudError, _CloudError_optional):
    pass


# `permission`, `invalid` and `not_found` are permanent: the same request gets the same answer.
CloudErrorKind = Literal["quota", "stockout", "permission", "invalid", "rate_limited", "not_found", "internal", "unreachable"]

ClusterCommandOptions = TypedDict("ClusterCommandOptions", {
    # The owner for whom the actor gives the command, which is recorded as the actor's.
    "onBehalfOf": "UserName",
    # For resume and rerun: US dollars, instead of `job.budget`.
    "budgetUsd": "float",
}, total=False)

# `Complete`, `Failed`, `Suspended`, …
ClusterCondition = TypedDict("ClusterCondition", {
    "type": "str",
    "status": "str",
    "reason": "Union[str, None]",
    "message": "Union[str, None]",
    "at": "Union[Instant, None]",
})

ClusterContainer_lastEnd_1 = TypedDict("ClusterContainer_lastEnd_1", {
    "reason": "ClusterContainer",
    "exitCode": "ClusterContainer",
    "signal": "ClusterContainer",
})

_ClusterContainer = TypedDict("_ClusterContainer", {
    "name": "str",
    "image": "str",
    "state": "Literal[\"waiting\", \"running\", \"terminated\"]",
    "reason": "Union[str, None]",
    "message": "Union[str, None]",
    "exitCode": "Union[float, None]",
    "signal": "Union[float, None]",
    "restarts": "float",
    "startedAt": "Union[Instant, None]",
    "endedAt": "Union[Instant, None]",
    "init": "bool",
})
_ClusterContainer_optional = TypedDict("_ClusterContainer_optional", {
    # The end of the run before the last restart; null before the first restart. Absent in older copies.
    "lastEnd": "Union[ClusterContainer_lastEnd_1, None]",
}, total=False)


class ClusterContainer(_ClusterContainer, _ClusterContainer_optional):
    pass


ClusterContext = TypedDict("ClusterContext", {
    # The kubeconfig's context; `in-cluster` for the service account of a pod.
    "context": "str",
    "server": "str",
    "namespace": "str",
    "user": "str",
})

ClusterEvent_object = TypedDict("ClusterEvent_object", {
    "kind": "str",
    "name": "str",
    "uid": "str",
})

# Repetitions of an event are one event with a higher count.
ClusterEvent = TypedDict("ClusterEvent", {
    "object": "ClusterEvent_object",
    "type": "Literal[\"Normal\", \"Warning\"]",
    "reason": "str",
    "message": "str",
    "count": "float",
    "firstAt": "Instant",
    "lastAt": "Instant",
})

_ClusterJob = TypedDict("_ClusterJob", {
    "name": "str",
    "namespace": "str",
    "uid": "str",
    "createdAt": "Instant",
    "startedAt": "Union[Instant, None]",
    "endedAt": "Union[Instant, None]",
    "suspended": "bool",
    "parallelism": "float",
    # Null if any one success completes the Job.
    "completions": "Union[float, None]",
    # `active`: pods that are pending or running. `ready`: those that are ready. The others have ended.
    "active": "float",
    "ready": "float",
    "succeeded": "float",
    "failed": "float",
    "conditions": "List[ClusterCondition]",
    # The annotation under the configured key (`job.resources.label`); null without it.
    "flavor": "Union[str, None]",
    # Our labels; null on a Job of another tool.
    "owner": "Union[str, None]",
    "installation": "Union[str, None]",
    # The requests of one pod, summed over its containers, in the canonical form of quantity.ts.
    "requests": "Dict[str, str]",
    "images": "List[str]",
    "deleting": "bool",
    "queueName": "Union[str, None]",
    "priorityClass": "Union[str, None]",
})
_ClusterJob_optional = TypedDict("_ClusterJob_optional", {
    # Terminating pods; absent in clusters before 1.31.
    "terminating": "float",
    # The limit of `--timeout`; null without one.
    "deadline": "Union[Duration, None]",
    # Kueue's label for the priority in that queue. Without it, the PriorityClass of the pods counts.
    "queuePriority": "Union[str, None]",
    # The events to report and their recipients, from our annotation. Absent without one.
    "notify": "NotifySpec",
}, total=False)


class ClusterJob(_ClusterJob, _ClusterJob_optional):
    pass


# A repeated observation of an event has the same key.
ClusterJobEvent = TypedDict("ClusterJobEvent", {
    "key": "str",
    "at": "Instant",
    "message": "str",
})

# The fields that explain why a pod is not scheduled.
ClusterNode = TypedDict("ClusterNode", {
    "name": "str",
    "ready": "bool",
    # True if the node is cordoned.
    "unschedulable": "bool",
    # Keys of the taints that repel pods without a matching toleration.
    "taints": "List[str]",
    "labels": "Dict[str, str]",
    # In the canonical form of quantity.ts.
    "allocatable": "Dict[str, str]",
})

_ClusterPod = TypedDict("_ClusterPod", {
    "name": "str",
    "namespace": "str",
    # The Job that owns the pod; without an owner, the Job in its label `batch.kubernetes.io/job-name`. Null without one.
    "job": "Union[str, None]",
    "uid": "str",
    # `Pending`, `Running`, `Succeeded`, `Failed`, `Unknown`.
    "phase": "str",
    "reason": "Union[str, None]",
    "message": "Union[str, None]",
    "node": "Union[str, None]",
    "index": "Union[float, None]",
    "createdAt": "Instant",
    "startedAt": "Union[Instant, None]",
    # The resources that the pod takes on its node, in the canonical form of quantity.ts.
    "requests": "Dict[str, str]",
    "containers": "List[ClusterContainer]",
    "conditions": "List[ClusterCondition]",
    "deleting": "bool",
})
_ClusterPod_optional = TypedDict("_ClusterPod_optional", {
    # That Job's uid: another Job may have had the same name. Null if the cluster does not report it.
    "jobUid": "Union[str, None]",
    "limits": "Dict[str, str]",
}, total=False)


class ClusterPod(_ClusterPod, _ClusterPod_optional):
    pass


# A ResourceQuota for all pods of a namespace: limits and use, under the names of the quota itself.
ClusterQuota = TypedDict("ClusterQuota", {
    "name": "str",
    "hard": "Dict[str, str]",
    "used": "Dict[str, str]",
})

ClusterSite = TypedDict("ClusterSite", {
    # True if commands query a cluster in addition to the database of the server.
    "isConfigured": "bool",
    # True if a job was ever submitted through the server or on its machine; otherwise the archive has no job.
    "hasSubmitted": "bool",
})

CommandOptions = TypedDict("CommandOptions", {
    # The owner for whom the actor gives the command, which is recorded as the actor's.
    "onBehalfOf": "UserName",
    "release": "bool",
    # For resume: a new copy of the working directory, whose blobs are stored.
    "workdir": "UploadedWorkdir",
    # For resume and rerun: US dollars, instead of `job.budget`.
    "budgetUsd": "float",
    # For start: run only the command, on the workers that the job holds ready.
    "commandOnly": "bool",
    "force": "bool",
    # Refuses the command if the job has another revision by then.
    "ifRevision": "float",
    # For start, resume and rerun: the tokens of reasons that the user has confirmed.
    "confirmed": "List[ConfirmationToken]",
    # For start, resume and rerun: as in `CreateRequest`. For cancel: more jobs, cancelled in the same transaction.
    "replaces": "List[str]",
    # Set by `tpu resume` and `tpu rerun`: the attempt's window and booking are written with the command.
    "lab": "LabRestart",
}, total=False)

_CommandResult = TypedDict("_CommandResult", {
    "id": "str",
    "ok": "bool",
    # Says what happened to which job and what to do next, with the capacity still held and its cost per hour.
    "message": "str",
    "exitCode": "float",
})
_CommandResult_optional = TypedDict("_CommandResult_optional", {
    # The owner, if jobman refuses the command because of the actor, not because of the state of the job.
    "refusedFor": "UserName",
    # With `refusedFor`: after a confirmation by the user, the same command with `onBehalfOf` that owner is allowed.
    "mayActForOwner": "Literal[True]",
    # The command needs a confirmation.
    "confirmation": "ConfirmationNeeded",
}, total=False)


class CommandResult(_CommandResult, _CommandResult_optional):
    pass


_CommandSpec = TypedDict("_CommandSpec", {
    # The user's script, wrapped for its environment. May contain `nodeNamePlaceholder`.
    "script": "str",
    # On the workers of the allocation, or on the machine that jobman runs on.
    "runsOn": "Literal[\"workers\", \"controller\"]",
    "workers": "Union[Literal[\"all\"], List[float]]",
    "env": "Dict[str, str]",
    # The folder in which the command starts; may begin with `workdirPlaceholder`. Null: the login folder.
    "workdir": "Union[str, None]",
    # Folder for checkpoints. `checkpointFolder` gives the folder of one attempt.
    "checkpointDir": "Union[str, None]",
})
_CommandSpec_optional = TypedDict("_CommandSpec_optional", {
    # No command: the attempt succeeds once every worker is set up.
    "isSetupOnly": "Literal[True]",
    # The user's own text, if `script` wraps it. For people. May contain `nodeNamePlaceholder` too.
    "userScript": "str",
    # Secret environment variables by name. Their values are read at every start; one newline at the end is dropped. Absent: none.
    "secrets": "Dict[str, SecretRef]",
    # `own`: jobman makes a folder for each start from the beginning. `named`: the manifest names the folder, and JOBMAN_RESUME_FROM names only entries that the job made since its newest start from the beginning. `shared`: any entry of a folder that the manifest names. Absent (records of an earlier version): `shared`.
    "checkpoints": "Literal[\"own\", \"named\", \"shared\"]",
    # `checkpointDir` in storage that outlives an ephemeral TPU (`gs://bucket/runs`). Absent: none, or an own folder in the record of an earlier version.
    "checkpointStorage": "str",
    # The checkpoint from which the job starts. Absent: none.
    "resumeFrom": "ResumeFrom",
}, total=False)


class CommandSpec(_CommandSpec, _CommandSpec_optional):
    pass


CommandStep_1 = TypedDict("CommandStep_1", {
    "kind": "Literal[\"progress\"]",
    "message": "str",
})

_CommandStep_2 = TypedDict("_CommandStep_2", {
    "id": "str",
    "ok": "bool",
    # Says what happened to which job and what to do next, with the capacity still held and its cost per hour.
    "message": "str",
    "exitCode": "float",
    "kind": "Literal[\"result\"]",
})
_CommandStep_2_optional = TypedDict("_CommandStep_2_optional", {
    # The owner, if jobman refuses the command because of the actor, not because of the state of the job.
    "refusedFor": "UserName",
    # With `refusedFor`: after a confirmation by the user, the same command with `onBehalfOf` that owner is allowed.
    "mayActForOwner": "Literal[True]",
    # The command needs a confirmation.
    "confirmation": "ConfirmationNeeded",
}, total=False)


class CommandStep_2(_CommandStep_2, _CommandStep_2_optional):
    pass


# `progress`: a command that takes long says what it waits for. One step is the result.
CommandStep = Union['CommandStep_1', 'CommandStep_2']

# The server has stored nothing. The same request with the tokens of all reasons succeeds once, unless the facts have changed.
ConfirmationNeeded = TypedDict("ConfirmationNeeded", {
    "reasons": "List[ConfirmationRequired]",
    # A sentence if the request had tokens that do not cover every reason; null for a request without tokens.
    "notice": "Union[str, None]",
})

# A confirmation needed from a user: the request exceeds the grants, or another job uses the TPU or folder.
ConfirmationRequired = TypedDict("ConfirmationRequired", {
    # The cause.
    "kind": "Literal[\"tpu_in_use\", \"checkpoints_in_use\", \"not_granted\", \"price\", \"budget_used\", \"user_limit\"]",
    # A sentence without its full stop.
    "message": "str",
    # `about $4.00/h`; null if no price is known or the command adds no cost.
    "cost": "Union[str, None]",
    # Another next step, as a sentence.
    "remedy": "str",
    # True if the price is the only reason: a terminal asks, and a script prints the price and continues.
    "mayProceed": "bool",
    # Confirms this reason once, unless its facts change. Null if no confirmation helps: a budget is used up.
    "token": "Union[ConfirmationToken, None]",
})

# Covers one reason for one request, once: it is a hash of the request and of facts that the request changes, so nothing is stored.
ConfirmationToken = str

# Sums over several allocations.
CostAmount = TypedDict("CostAmount", {
    # Time of all allocations together.
    "durationMs": "Duration",
    # Chips (TPU chips or GPUs) × time; capacity without chips adds nothing. An hour of four chips is 14,400,000.
    "chipMs": "Duration",
    # Estimated dollars of the part that has a price. Null if no part of `durationMs` has one.
    "estimateUsd": "Union[float, None]",
    # The part of `durationMs` without a price.
    "unpricedMs": "Duration",
    # The part of `durationMs` that Google does not charge: it preempted the TPU within a minute.
    "freeMs": "Duration",
})

CostGroup = TypedDict("CostGroup", {
    # All time in which capacity was held: the sum of the other amounts without `waiting`.
    "held": "CostAmount",
    # The command ran, and its work is kept.
    "useful": "CostAmount",
    # The command ran, and its work since the last checkpoint was lost.
    "lost": "CostAmount",
    # Ready, before the command ran.
    "setup": "CostAmount",
    # Ready, and no attempt used it.
    "idle": "CostAmount",
    # Ready after the job had finished.
    "kept": "CostAmount",
    # Requested and not ready yet, which is not charged; chips are those of the request.
    "waiting": "CostAmount",
    # By `by`: job id, for a job in a cluster its name; user; tag; accelerator type or flavor; zone or `context/namespace`; day in UTC. Null without one, such as the zone of this machine.
    "key": "Union[str, None]",
    # The name of the job; null in other groupings.
    "name": "Union[str, None]",
    # The owner of the job; null in other groupings, or if another tool made the job.
    "owner": "Union[str, None]",
    # `context/namespace` of a job in a cluster; null in other groupings.
    "cluster": "Union[str, None]",
    # The uid of a job in a cluster; null in other groupings.
    "uid": "Union[str, None]",
    # True on the TPU emulator, which is free: `estimateUsd` is then the price of the same TPUs at Google.
    "simulated": "bool",
})

CostGrouping = Literal["job", "user", "tag", "accelerator", "zone", "day"]

CostReport = TypedDict("CostReport", {
    # The kind of the groups.
    "by": "CostGrouping",
    # The first usage if the query has no beginning; null if there is none either.
    "beginsAt": "Union[Instant, None]",
    # The end of the query; now if that is later or absent.
    "endsAt": "Instant",
    # The dates of the price tables of all estimates (`2026-08-01`), and `settings` for own prices; sorted.
    "prices": "List[str]",
    # True if some usage is older than the price table of its estimate.
    "olderThanPrices": "bool",
    # True if a job has several tags and counts in each of these groups. The totals count it once.
    "overlapping": "bool",
    # Most expensive first, simulated last; days in order.
    "groups": "List[CostGroup]",
    # The groups beyond `limit`: at most one entry for real and one for simulated capacity.
    "rest": "List[CostRest]",
    # Of real capacity; then of simulated capacity, if there is any.
    "totals": "List[CostTotal]",
})

# The groups beyond the limit.
CostRest = TypedDict("CostRest", {
    # All time in which capacity was held: the sum of the other amounts without `waiting`.
    "held": "CostAmount",
    # The command ran, and its work is kept.
    "useful": "CostAmount",
    # The command ran, and its work since the last checkpoint was lost.
    "lost": "CostAmount",
    # Ready, before the command ran.
    "setup": "CostAmount",
    # Ready, and no attempt used it.
    "idle": "CostAmount",
    # Ready after the job had finished.
    "kept": "CostAmount",
    # Requested and not ready yet, which is not charged; chips are those of the request.
    "waiting": "CostAmount",
    "simulated": "bool",
    # Number of groups.
    "count": "float",
})

CostTotal = TypedDict("CostTotal", {
    # All time in which capacity was held: the sum of the other amounts without `waiting`.
    "held": "CostAmount",
    # The command ran, and its work is kept.
    "useful": "CostAmount",
    # The command ran, and its work since the last checkpoint was lost.
    "lost": "CostAmount",
    # Ready, before the command ran.
    "setup": "CostAmount",
    # Ready, and no attempt used it.
    "idle": "CostAmount",
    # Ready after the job had finished.
    "kept": "CostAmount",
    # Requested and not ready yet, which is not charged; chips are those of the request.
    "waiting": "CostAmount",
    "simulated": "bool",
})

CountProgress = TypedDict("CountProgress", {
    # The folders or buckets that are counted, of all that will be.
    "counted": "float",
    "ofAll": "float",
    "objects": "float",
    "bytes": "float",
})

CreateAnswer_2 = TypedDict("CreateAnswer_2", {
    "kind": "Literal[\"confirmation_required\"]",
    "confirmation": "ConfirmationNeeded",
})

CreateAnswer = Union['CreatedJob', 'CreateAnswer_2']

_CreateRequest = TypedDict("_CreateRequest", {
    "spec": "JobSpec",
    "manifest": "str",
})
_CreateRequest_optional = TypedDict("_CreateRequest_optional", {
    # The owner for whom the actor creates the job. Absent: the actor.
    "onBehalfOf": "UserName",
    # The tokens of reasons that the user has confirmed.
    "confirmed": "List[ConfirmationToken]",
    # Jobs to cancel in the same transaction, so that the new job gets their TPU.
    "replaces": "List[str]",
    # The copy of `job.workdir`, whose blobs are stored.
    "workdir": "UploadedWorkdir",
    # The values of the job's own secrets, in Base64.
    "secrets": "Dict[str, str]",
    # Set by `tpu run`: the job is created together with its first window and its booking.
    "lab": "LabEntry",
    # 1 to 255 characters without spaces, a new key for each new job. Within a day, the same request with the same key returns the same job, and a different request with that key is a conflict.
    "idempotencyKey": "str",
}, total=False)


class CreateRequest(_CreateRequest, _CreateRequest_optional):
    pass


CreatedJob = TypedDict("CreatedJob", {
    "kind": "Literal[\"created\"]",
    "id": "str",
    "row": "JobRow",
    "warnings": "List[str]",
})

CreatedToken = TypedDict("CreatedToken", {
    # The value, which the server does not store.
    "token": "str",
    "view": "TokenView",
    # True if this call has registered the user as the first admin.
    "registered": "bool",
})

# A position in the changes. A client only stores it and compares it for equality.
Cursor = str

# The links of a log; null for one that it lacks.
DashboardLinks = TypedDict("DashboardLinks", {
    # The run at Weights & Biases.
    "wandb": "Union[str, None]",
    # A folder with event files of TensorBoard: a path on the worker, or a URL of a bucket.
    "tensorboard": "Union[str, None]",
})

# A disk attached to every machine.
DataDisk = TypedDict("DataDisk", {
    # Its id in the allocation's zone, or a full name `projects/P/zones/Z/disks/D`.
    "source": "str",
    "mode": "Literal[\"read-only\", \"read-write\"]",
})

Delivery = TypedDict("Delivery", {
    "late": "List[LateChange]",
    # The time of the next try; null if there is none.
    "nextAt": "Union[Instant, None]",
})

# The owner's last request. `running`: the command should run. `stopped`: the program ends and the capacity is kept. `cancelled`: the program ends and the capacity is released. `deleted`: as `cancelled`, and the job leaves the list once its capacity is deleted.
Desired = Literal["running", "stopped", "cancelled", "deleted"]

# A program that uses the device of a worker.
DeviceHolder = TypedDict("DeviceHolder", {
    "worker": "float",
    "pid": "float",
    "user": "str",
    # The command line, arguments separated by spaces.
    "command": "str",
})

# JSON by section. Times are durations in milliseconds, with names in `Ms`.
DiffSide_values = TypedDict("DiffSide_values", {
    "job": "Any",
    "manifest": "Any",
    "spec": "Any",
    "environment": "Any",
    "rules": "Any",
    "image": "Any",
    "hosts": "Any",
    "workdir": "Any",
    "result": "Any",
}, total=False)

DiffSide_files_1 = TypedDict("DiffSide_files_1", {
    "copy": "float",
    "byPath": "WorkdirFiles",
})

_DiffSide = TypedDict("_DiffSide", {
    # Its id; of a job in a cluster its name.
    "job": "str",
    "name": "str",
    # The attempt whose hosts, files and result are compared; null before the first, and in a cluster.
    "attempt": "Union[float, None]",
    # JSON by section. Times are durations in milliseconds, with names in `Ms`.
    "values": "DiffSide_values",
    # The files of the copy of the working directory; null if they are not kept.
    "files": "Union[DiffSide_files_1, None]",
})
_DiffSide_optional = TypedDict("_DiffSide_optional", {
    # The files that setup steps put on the workers, such as those of `job.files`. Absent: none.
    "stepFiles": "List[StepFile]",
    # The reason why its metrics are not compared.
    "metricsProblem": "str",
    # A local job that ran files of this machine without a copy of them.
    "isCodeUnknown": "Literal[True]",
}, total=False)


# A job, or one of its attempts.
class DiffSide(_DiffSide, _DiffSide_optional):
    pass


# `sha256:` and the SHA-256 of a content in 64 hexadecimal digits.
Digest = str

# A working directory as it is now.
DirectoryFacts = TypedDict("DirectoryFacts", {
    # Absolute.
    "path": "str",
    "exists": "bool",
    # It has `staging.sh`, which `tpu run` needs.
    "hasScript": "bool",
    # The text of `ka.sh`, which may name a TPU; null without it.
    "tpuScript": "Union[str, None]",
})

Duration = float

EndRequest_pids_item = TypedDict("EndRequest_pids_item", {
    "worker": "float",
    "pid": "float",
})

EndRequest = TypedDict("EndRequest", {
    "folders": "List[str]",
    "pids": "List[EndRequest_pids_item]",
    "graceMs": "float",
})

EndResult_unreachable_item = TypedDict("EndResult_unreachable_item", {
    "worker": "float",
    "message": "str",
})

EndResult = TypedDict("EndResult", {
    "ended": "List[DeviceHolder]",
    "left": "List[DeviceHolder]",
    "unreachable": "List[EndResult_unreachable_item]",
})

_Event_1 = TypedDict("_Event_1", {
    "by": "str",
    "kind": "Literal[\"created\"]",
    "at": "Instant",
})
_Event_1_optional = TypedDict("_Event_1_optional", {
    "overrides": "List[Override]",
}, total=False)


class Event_1(_Event_1, _Event_1_optional):
    pass


_Event_2 = TypedDict("_Event_2", {
    "verb": "str",
    "by": "str",
    "desired": "Desired",
    "kind": "Literal[\"command_received\"]",
    "at": "Instant",
})
_Event_2_optional = TypedDict("_Event_2_optional", {
    "startMode": "Literal[\"fresh\", \"resume\", \"rerun\"]",
    # With stop: there was no ready capacity to keep.
    "keepsNothing": "Literal[True]",
    # With resume: the new copy of the working directory.
    "workdirCopy": "float",
    # The blob with the list of the files of that copy.
    "workdirTree": "Digest",
    # With resume and rerun: US dollars that replace `job.budget`.
    "budgetUsd": "float",
}, total=False)


class Event_2(_Event_2, _Event_2_optional):
    pass


_Event_3 = TypedDict("_Event_3", {
    # Counts resumes: 0 for a start from the beginning.
    "stage": "float",
    # `resume` sets JOBMAN_RESUME_FROM.
    "startMode": "Literal[\"fresh\", \"resume\", \"rerun\"]",
    # False if a recovery rule made it. Budgets and backoffs count from the newest attempt with true.
    "startedByOwner": "bool",
    # Its allocation, by ordinal. It may change until the command starts.
    "allocation": "float",
    # Backoff: no request for capacity and no start of the command before this time.
    "notBeforeAt": "Instant",
    "attempt": "float",
    "kind": "Literal[\"attempt_created\"]",
    "at": "Instant",
})
_Event_3_optional = TypedDict("_Event_3_optional", {
    # As in the start request.
    "commandOnly": "Literal[True]",
    # The copy of the working directory that it runs. Absent if the job has none.
    "workdirCopy": "float",
}, total=False)


class Event_3(_Event_3, _Event_3_optional):
    pass


Event_4 = TypedDict("Event_4", {
    "notBeforeAt": "Instant",
    "allocation": "float",
    "attempt": "float",
    "kind": "Literal[\"attempt_moved\"]",
    "at": "Instant",
})

_Event_5 = TypedDict("_Event_5", {
    # Its name in the cloud (`nodeName`).
    "name": "str",
    "ownership": "Literal[\"ephemeral\", \"persistent\"]",
    "allocation": "float",
    "kind": "Literal[\"allocation_requested\"]",
    "at": "Instant",
})
_Event_5_optional = TypedDict("_Event_5_optional", {
    # 0 or absent: the spec's own; from 1: `tpu.alternatives` in order. It changes if nothing was created.
    "alternative": "float",
}, total=False)


class Event_5(_Event_5, _Event_5_optional):
    pass


Event_6 = TypedDict("Event_6", {
    "alternative": "float",
    "answer": "CapacityAnswer",
    "next": "float",
    "allocation": "float",
    "kind": "Literal[\"alternative_exhausted\"]",
    "at": "Instant",
})

Event_7 = TypedDict("Event_7", {
    "alternative": "float",
    "next": "float",
    "allocation": "float",
    "kind": "Literal[\"alternative_skipped\"]",
    "at": "Instant",
})

_Event_8 = TypedDict("_Event_8", {
    "error": "CloudError",
    "allocation": "float",
    "kind": "Literal[\"allocation_refused\"]",
    "at": "Instant",
})
_Event_8_optional = TypedDict("_Event_8_optional", {
    "nextAt": "Instant",
}, total=False)


class Event_8(_Event_8, _Event_8_optional):
    pass


_Event_9 = TypedDict("_Event_9", {
    "state": "AllocationState",
    "message": "str",
    "allocation": "float",
    "kind": "Literal[\"allocation_seen\"]",
    "at": "Instant",
})
_Event_9_optional = TypedDict("_Event_9_optional", {
    "workers": "float",
    # Present if the ready periods do not follow from the state alone.
    "slices": "List[SliceState]",
    # The first of two observations that missed it. Its ready periods end there. Absent: the time of the event.
    "missedAt": "Instant",
}, total=False)


class Event_9(_Event_9, _Event_9_optional):
    pass


_Event_10 = TypedDict("_Event_10", {
    "message": "str",
    "allocation": "float",
    "kind": "Literal[\"allocation_released\"]",
    "at": "Instant",
})
_Event_10_optional = TypedDict("_Event_10_optional", {
    # A finished job kept it until this budget was used up.
    "budget": "Spending",
}, total=False)


class Event_10(_Event_10, _Event_10_optional):
    pass


_Event_11 = TypedDict("_Event_11", {
    "allocation": "float",
    "kind": "Literal[\"allocation_gone\"]",
    "at": "Instant",
})
_Event_11_optional = TypedDict("_Event_11_optional", {
    # As in `allocation_seen`.
    "missedAt": "Instant",
}, total=False)


class Event_11(_Event_11, _Event_11_optional):
    pass


_Event_12 = TypedDict("_Event_12", {
    "slices": "List[SliceState]",
    "allocation": "float",
    "kind": "Literal[\"orphan_seen\"]",
    "at": "Instant",
})
_Event_12_optional = TypedDict("_Event_12_optional", {
    # The alternative in which a TPU appeared after the job had left that alternative. Absent for the allocation itself.
    "alternative": "float",
}, total=False)


class Event_12(_Event_12, _Event_12_optional):
    pass


Event_13 = TypedDict("Event_13", {
    "worker": "float",
    "step": "str",
    "tries": "float",
    "message": "str",
    "allocation": "float",
    "attempt": "float",
    "kind": "Literal[\"step_failed\"]",
    "at": "Instant",
})

Event_14_failed_item = TypedDict("Event_14_failed_item", {
    "worker": "float",
    "message": "str",
})

Event_14 = TypedDict("Event_14", {
    "by": "str",
    "step": "str",
    "force": "bool",
    # Number of workers.
    "workers": "float",
    # The workers on which the step failed.
    "failed": "List[Event_14_failed_item]",
    "allocation": "float",
    "kind": "Literal[\"step_run_manually\"]",
    "at": "Instant",
})

Event_15 = TypedDict("Event_15", {
    "workers": "List[WorkerId]",
    "attempt": "float",
    "kind": "Literal[\"attempt_started\"]",
    "at": "Instant",
})

Event_16 = TypedDict("Event_16", {
    "attempt": "float",
    "kind": "Literal[\"attempt_running\"]",
    "at": "Instant",
})

Event_17 = TypedDict("Event_17", {
    "entry": "Union[str, None]",
    # The time of the entry in its folder, by the worker's clock.
    "savedAt": "Union[Instant, None]",
    "attempt": "float",
    "kind": "Literal[\"attempt_resumed\"]",
    "at": "Instant",
})

_Event_18 = TypedDict("_Event_18", {
    "worker": "WorkerId",
    "exitCode": "float",
    "attempt": "float",
    "kind": "Literal[\"exit_seen\"]",
    "at": "Instant",
})
_Event_18_optional = TypedDict("_Event_18_optional", {
    "signal": "str",
}, total=False)


class Event_18(_Event_18, _Event_18_optional):
    pass


_Event_19 = TypedDict("_Event_19", {
    "reason": "Reason",
    "evidence": "Evidence",
    "attempt": "float",
    "kind": "Literal[\"attempt_ending\"]",
    "at": "Instant",
})
_Event_19_optional = TypedDict("_Event_19_optional", {
    "programEndedAt": "Instant",
}, total=False)


class Event_19(_Event_19, _Event_19_optional):
    pass


_Event_20 = TypedDict("_Event_20", {
    "reason": "Reason",
    "evidence": "Evidence",
    "attempt": "float",
    "kind": "Literal[\"attempt_ended\"]",
    "at": "Instant",
})
_Event_20_optional = TypedDict("_Event_20_optional", {
    "endedAt": "Instant",
    "exits": "List[Exit]",
}, total=False)


class Event_20(_Event_20, _Event_20_optional):
    pass


_Event_21 = TypedDict("_Event_21", {
    "reason": "Reason",
    # `resume` continues from the last checkpoint (stage + 1); `rerun` starts from the beginning; `fail` ends the job as failed, `done` as succeeded.
    "then": "Literal[\"resume\", \"rerun\", \"fail\", \"done\"]",
    # `new` on a persistent allocation releases it and requests one of the same name.
    "on": "Literal[\"same\", \"new\"]",
    "used": "float",
    "limit": "float",
    "attempt": "float",
    "kind": "Literal[\"rule_applied\"]",
    "at": "Instant",
})
_Event_21_optional = TypedDict("_Event_21_optional", {
    # The pattern, exit code and worker that the rule names: they show a reader which rule answered.
    "pattern": "str",
    "exitCode": "float",
    "worker": "float",
    # `used` and `limit` are the rule's own, not a budget's.
    "isRuleLimit": "Literal[True]",
}, total=False)


class Event_21(_Event_21, _Event_21_optional):
    pass


_Event_22 = TypedDict("_Event_22", {
    "message": "str",
    "allocation": "float",
    "kind": "Literal[\"unreachable\"]",
    "at": "Instant",
})
_Event_22_optional = TypedDict("_Event_22_optional", {
    "worker": "WorkerId",
    # Only the controller of another home can observe the program, on this machine or on another one.
    "who": "Literal[\"home\", \"machine\"]",
}, total=False)


class Event_22(_Event_22, _Event_22_optional):
    pass


_Event_23 = TypedDict("_Event_23", {
    "allocation": "float",
    "kind": "Literal[\"reachable\"]",
    "at": "Instant",
})
_Event_23_optional = TypedDict("_Event_23_optional", {
    "who": "Literal[\"workers\"]",
}, total=False)


class Event_23(_Event_23, _Event_23_optional):
    pass


Event_24 = TypedDict("Event_24", {
    "kind": "Literal[\"clock_set_back\"]",
    "at": "Instant",
})

_Event_25 = TypedDict("_Event_25", {
    # By the job since its owner's newest start, or by its owner since the beginning of the period.
    "spentUsd": "float",
    "budgetUsd": "float",
    "kind": "Literal[\"budget_warning\"]",
    "at": "Instant",
})
_Event_25_optional = TypedDict("_Event_25_optional", {
    # Absent: `job.budget`.
    "ownerBudget": "OwnerBudget",
}, total=False)


class Event_25(_Event_25, _Event_25_optional):
    pass


Event_26 = TypedDict("Event_26", {
    "verdict": "Literal[\"succeeded\", \"failed\", \"stopped\", \"cancelled\"]",
    "reason": "Reason",
    "kind": "Literal[\"finished\"]",
    "at": "Instant",
})

Event_27 = TypedDict("Event_27", {
    "kind": "Literal[\"removed\"]",
    "at": "Instant",
})

# One immutable line of a job's history.
Event = Union['Event_1', 'Event_2', 'Event_3', 'Event_4', 'Event_5', 'Event_6', 'Event_7', 'Event_8', 'Event_9', 'Event_10', 'Event_11', 'Event_12', 'Event_13', 'Event_14', 'Event_15', 'Event_16', 'Event_17', 'Event_18', 'Event_19', 'Event_20', 'Event_21', 'Event_22', 'Event_23', 'Event_24', 'Event_25', 'Event_26', 'Event_27']

_Evidence = TypedDict("_Evidence", {
    "message": "str",
})
_Evidence_optional = TypedDict("_Evidence_optional", {
    "worker": "WorkerId",
    "exitCode": "float",
    "signal": "str",
    # The exit code was 0, but the program did not report its success (`RunStatus.failure`).
    "unconfirmed": "Literal[True]",
    # Name of the log pattern that matched.
    "pattern": "str",
    # The line that matched, or the exception with which a Python program ended.
    "line": "str",
    # The cloud's own message.
    "raw": "str",
    # The budget that is used up, and its spending at that time.
    "budget": "Spending",
}, total=False)


# Evidence for a reason. `message` is one phrase for people.
class Evidence(_Evidence, _Evidence_optional):
    pass


_Exit = TypedDict("_Exit", {
    "exitCode": "float",
    "workers": "List[WorkerId]",
})
_Exit_optional = TypedDict("_Exit_optional", {
    "signal": "str",
}, total=False)


# An exit code, and the workers on which the program ended with it.
class Exit(_Exit, _Exit_optional):
    pass


FiguresAnswer_1 = TypedDict("FiguresAnswer_1", {
    "kind": "Literal[\"known\"]",
    "at": "Instant",
    "figures": "WorkerFigures",
})

FiguresAnswer_2 = TypedDict("FiguresAnswer_2", {
    "kind": "Literal[\"unknown\"]",
    "reason": "str",
})

FiguresAnswer = Union['FiguresAnswer_1', 'FiguresAnswer_2']

_FinishSpec = TypedDict("_FinishSpec", {
    # For ephemeral capacity when the job has finished.
    "capacity": "Literal[\"release\", \"keep\"]",
    # Longest time to keep it. Null: until a user releases it.
    "keepForMs": "Union[Duration, None]",
})
_FinishSpec_optional = TypedDict("_FinishSpec_optional", {
    # Time for which a failed job keeps its capacity for debugging, even with `release`. Absent: as `capacity` says.
    "holdOnFailureMs": "Duration",
}, total=False)


class FinishSpec(_FinishSpec, _FinishSpec_optional):
    pass


# The own price of a resource flavor: exactly one of the two amounts.
FlavorPrice = TypedDict("FlavorPrice", {
    # For one slice of the accelerator, one pod of the flavor, or the host.
    "usdPerHour": "float",
    "usdPerChipHour": "float",
}, total=False)

ForgetAnswer_1 = TypedDict("ForgetAnswer_1", {
    "kind": "Literal[\"forgotten\"]",
})

ForgetAnswer_2 = TypedDict("ForgetAnswer_2", {
    "kind": "Literal[\"confirmation_required\"]",
    "resources": "List[str]",
})

ForgetAnswer = Union['ForgetAnswer_1', 'ForgetAnswer_2']

# The beginning of a line.
FoundLogLine = TypedDict("FoundLogLine", {
    "id": "str",
    "offset": "float",
    # As the line begins, or the nearest of the lines before it with a time: `2026-11-20T08:20:01Z`. Null without one.
    "time": "Union[str, None]",
})

_FoundTpu = TypedDict("_FoundTpu", {
    # Distinguishes the TPU from an earlier or later one of the same name. Null for a queued resource without a node.
    "creationTime": "Union[str, None]",
    # The job that it was created for; null for a TPU of the lab.
    "job": "Union[str, None]",
})
_FoundTpu_optional = TypedDict("_FoundTpu_optional", {
    "accelerator": "str",
    "pricing": "Literal[\"ondemand\", \"preemptible\", \"spot\"]",
    # The owner in its metadata.
    "owner": "str",
}, total=False)


class FoundTpu(_FoundTpu, _FoundTpu_optional):
    pass


# A number that need not be whole.
Fraction = float

FrozenWorkdir_git_1 = TypedDict("FrozenWorkdir_git_1", {
    # Null before the first commit.
    "commit": "Union[str, None]",
    "branch": "Union[str, None]",
    # True if tracked files differ from the commit; the differences are in `changes.diff`.
    "changed": "bool",
})

FrozenWorkdir = TypedDict("FrozenWorkdir", {
    "from": "str",
    "copiedAt": "Instant",
    "files": "float",
    "bytes": "float",
    # Null outside a git repository.
    "git": "Union[FrozenWorkdir_git_1, None]",
})

_GivenFile_1 = TypedDict("_GivenFile_1", {
    "kind": "Literal[\"file\"]",
    "bytes": "float",
    "isExecutable": "bool",
})
_GivenFile_1_optional = TypedDict("_GivenFile_1_optional", {
    # The content. Only for the paths that the answer wants it of.
    "base64": "str",
}, total=False)


class GivenFile_1(_GivenFile_1, _GivenFile_1_optional):
    pass


GivenFile_2 = TypedDict("GivenFile_2", {
    "kind": "Literal[\"folder\"]",
    # The names in it.
    "entries": "List[str]",
})

GivenFile_3 = TypedDict("GivenFile_3", {
    "kind": "Literal[\"absent\"]",
})

# A file that a manifest names, as the client's machine has it.
GivenFile = Union['GivenFile_1', 'GivenFile_2', 'GivenFile_3']

# The events for one recipient that no message contains yet.
HeldEvents = TypedDict("HeldEvents", {
    # `mail:ADDRESS` or the name of a channel.
    "recipient": "str",
    # Their number, at most 500.
    "events": "float",
    # Time of the oldest.
    "oldestAt": "Instant",
    # Time at which the digest window allows their message; null while they wait for a message that fails.
    "nextAt": "Union[Instant, None]",
})

HolderScan_unreachable_item = TypedDict("HolderScan_unreachable_item", {
    "worker": "float",
    "message": "str",
})

# Holders on the workers that answered. Nothing is known of `unreachable` workers.
HolderScan = TypedDict("HolderScan", {
    "holders": "List[DeviceHolder]",
    "unreachable": "List[HolderScan_unreachable_item]",
})

# A home of jobman on a machine. Several may use one database on a server.
HomeRef = TypedDict("HomeRef", {
    "id": "str",
    "machine": "str",
    # For people.
    "path": "str",
})

# Addresses of one worker. Without an external address jobman uses the internal one.
Host = TypedDict("Host", {
    "internalIp": "Union[str, None]",
    "externalIp": "Union[str, None]",
})

# A machine that the settings name (`hosts`), or `localhost`.
HostName = str

# A path to show to people: only a program on that machine can open it.
HostPath = TypedDict("HostPath", {
    # The name of the machine.
    "host": "str",
    # Absolute on that machine.
    "path": "str",
})

_HostsSpec = TypedDict("_HostsSpec", {
    "kind": "Literal[\"hosts\"]",
    # The machines exist before and after the job.
    "ownership": "Literal[\"persistent\"]",
    # One worker and one slot on each, without duplicates; worker 0 is on the first.
    "hosts": "List[HostName]",
})
_HostsSpec_optional = TypedDict("_HostsSpec_optional", {
    # US dollars per hour of all, if the settings give each a price. Absent: none.
    "pricePerHourUsd": "float",
    # `settings`. Absent without a price.
    "pricesOf": "str",
}, total=False)


class HostsSpec(_HostsSpec, _HostsSpec_optional):
    pass


ImageArtifact = TypedDict("ImageArtifact", {
    "digest": "str",
    "tags": "List[str]",
    # Null if the registry does not report them.
    "bytes": "Union[float, None]",
    # `linux/amd64`; several for an index. Empty if not reported.
    "platforms": "List[str]",
    "pushedAt": "Union[Instant, None]",
    "pulledAt": "Union[Instant, None]",
})

ImageDetails = TypedDict("ImageDetails", {
    "name": "str",
    "project": "str",
    "repository": "str",
    "description": "str",
    "pullCount": "float",
    # Newest first; with a tag or digest in the query, only that one.
    "artifacts": "List[ImageArtifact]",
})

ImageRow = TypedDict("ImageRow", {
    # As for `submit -i` after the image prefix: without the project of the settings, but with any other project.
    "name": "str",
    "project": "str",
    "repository": "str",
    "tags": "List[str]",
    "artifactCount": "float",
    "pullCount": "float",
    "updatedAt": "Union[Instant, None]",
})

# Milliseconds since 1970-01-01 in UTC.
Instant = int

JobActions = TypedDict("JobActions", {
    "start": "ActionAnswer",
    "stop": "ActionAnswer",
    "resume": "ActionAnswer",
    "rerun": "ActionAnswer",
    "cancel": "ActionAnswer",
    "delete": "ActionAnswer",
    "disable-recovery": "ActionAnswer",
    "accept-exit": "ActionAnswer",
    "clean": "ActionAnswer",
    "setup": "ActionAnswer",
})

# An unfinished job, or a finished one that still holds capacity.
JobActivity = TypedDict("JobActivity", {
    # Six digits; for a job in a cluster its name there.
    "id": "str",
    "name": "str",
    # Null for a job in a cluster that another tool made.
    "owner": "Union[str, None]",
    "backend": "Union[BackendName, Literal[\"kubernetes\"]]",
    # The accelerator type; for a job in a cluster its flavor or requests. Null on hosts.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, None]",
    # The zone; for a job in a cluster `context/namespace`. Null on hosts.
    "zone": "Union[str, None]",
    # The hosts in the order of the workers; `localhost` is this machine. Empty for a TPU or a cluster.
    "hosts": "List[HostName]",
    # Address of worker 0; null without capacity.
    "worker0Address": "Union[str, None]",
    "phase": "Phase",
    # The capacity that a finished job still holds: `v4-8`, `2 × v4-16`; null if it holds none.
    "heldCapacity": "Union[str, None]",
    # The reason for the phase, for people.
    "message": "str",
    # The owner's last request.
    "desired": "Desired",
    # Number of resumes.
    "stage": "float",
    # Number of the newest attempt; 0 before the first.
    "attempt": "float",
    # The ends of the newest attempts, 8 at most, oldest first; null for one that has not ended. Empty in a cluster.
    "attemptEnds": "List[Union[Reason, None]]",
    # The reason why the job needs its owner; null without one.
    "attention": "Union[Attention, None]",
    "tags": "List[str]",
    # The values of `--set`, in order.
    "overrides": "List[Override]",
    "createdAt": "Instant",
    # Time at which the phase began.
    "phaseStartedAt": "Instant",
    # Estimated dollars per hour of the capacity held now; null without capacity or without a known price.
    "pricePerHourUsd": "Union[float, None]",
    # True on the TPU emulator: the prices are Google's, and it is free.
    "simulated": "bool",
    # Of the newest attempt; null without one.
    "allocation": "Union[float, None]",
    # True while the command of the newest attempt runs, so that its workers can be measured.
    "isRunning": "bool",
    "tpus": "List[JobTpu]",
    "workers": "List[WorkerActivity]",
    # The count of the slowest worker in the program's own output, for example its step; null without one.
    "step": "Union[float, None]",
    "stepsPerSecond": "Union[float, None]",
})

# The cost of one job.
JobCost = TypedDict("JobCost", {
    # All time in which capacity was held: the sum of the other amounts without `waiting`.
    "held": "CostAmount",
    # The command ran, and its work is kept.
    "useful": "CostAmount",
    # The command ran, and its work since the last checkpoint was lost.
    "lost": "CostAmount",
    # Ready, before the command ran.
    "setup": "CostAmount",
    # Ready, and no attempt used it.
    "idle": "CostAmount",
    # Ready after the job had finished.
    "kept": "CostAmount",
    # Requested and not ready yet, which is not charged; chips are those of the request.
    "waiting": "CostAmount",
    "simulated": "bool",
    # As in `CostReport`.
    "prices": "List[str]",
})

JobList_elsewhere_item = TypedDict("JobList_elsewhere_item", {
    "context": "str",
    "namespace": "str",
    "jobs": "float",
})

_JobList = TypedDict("_JobList", {
    "rows": "List[JobRow]",
    # The number of finished jobs that are left out; 0 for a page.
    "more": "float",
    # One sentence for each job source that did not answer.
    "notes": "List[str]",
})
_JobList_optional = TypedDict("_JobList_optional", {
    # The cursor of the next page; absent after the last one, and without pages.
    "next": "str",
    # The error of a job source that did not answer; absent if all did.
    "failure": "SourceFailure",
    # The numbers of unfinished jobs that were submitted through jobman to namespaces outside of the list.
    "elsewhere": "List[JobList_elsewhere_item]",
}, total=False)


class JobList(_JobList, _JobList_optional):
    pass


# A job in a list.
JobRow = TypedDict("JobRow", {
    # Six digits; for a job in a cluster its name there.
    "id": "str",
    "name": "str",
    # Null for a job in a cluster that another tool made.
    "owner": "Union[str, None]",
    "backend": "Union[BackendName, Literal[\"kubernetes\"]]",
    # The accelerator type; for a job in a cluster its flavor or requests. Null on hosts.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, None]",
    # The zone; for a job in a cluster `context/namespace`. Null on hosts.
    "zone": "Union[str, None]",
    # The hosts in the order of the workers; `localhost` is this machine. Empty for a TPU or a cluster.
    "hosts": "List[HostName]",
    # Address of worker 0; null without capacity.
    "worker0Address": "Union[str, None]",
    "phase": "Phase",
    # The capacity that a finished job still holds: `v4-8`, `2 × v4-16`; null if it holds none.
    "heldCapacity": "Union[str, None]",
    # The reason for the phase, for people.
    "message": "str",
    # The owner's last request.
    "desired": "Desired",
    # Number of resumes.
    "stage": "float",
    # Number of the newest attempt; 0 before the first.
    "attempt": "float",
    # The ends of the newest attempts, 8 at most, oldest first; null for one that has not ended. Empty in a cluster.
    "attemptEnds": "List[Union[Reason, None]]",
    # The reason why the job needs its owner; null without one.
    "attention": "Union[Attention, None]",
    "tags": "List[str]",
    # The values of `--set`, in order.
    "overrides": "List[Override]",
    "createdAt": "Instant",
    # Time at which the phase began.
    "phaseStartedAt": "Instant",
    # Estimated dollars per hour of the capacity held now; null without capacity or without a known price.
    "pricePerHourUsd": "Union[float, None]",
    # True on the TPU emulator: the prices are Google's, and it is free.
    "simulated": "bool",
})

_JobSpec = TypedDict("_JobSpec", {
    # Version of this format. `upgradeSpec` (spec-version.ts) reads older rows.
    "version": "Literal[2]",
    "name": "str",
    # `job.tags` and `tpu.tags` together, without duplicates.
    "tags": "List[str]",
    "capacity": "CapacitySpec",
    # Each worker runs these in order before the command. Their texts are final; the core reads names and keys only.
    "steps": "List[SetupStep]",
    "command": "CommandSpec",
    "recovery": "RecoverySpec",
    "limits": "LimitsSpec",
    "stop": "StopSpec",
    "finish": "FinishSpec",
})
_JobSpec_optional = TypedDict("_JobSpec_optional", {
    # A folder of this machine that every worker gets a copy of. The step that names it copies it. Absent: none.
    "workdir": "WorkdirSpec",
    # The events to report and their recipients. Absent: as the settings say.
    "notify": "NotifySpec",
    # The values of `--set`, in order. Absent: none.
    "overrides": "List[Override]",
}, total=False)


class JobSpec(_JobSpec, _JobSpec_optional):
    pass


_JobSubmission = TypedDict("_JobSubmission", {
    # The Job. The server sets its owner.
    "job": "KubernetesObject",
})
_JobSubmission_optional = TypedDict("_JobSubmission_optional", {
    # The values of its secrets that are no named secrets, by variable, in Base64.
    "secrets": "Dict[str, str]",
    # 1 to 255 characters without spaces, a new key for each new job. The same submission with the same key returns the same Job, as long as the cluster has it. Any other submission with the name of that Job is refused.
    "idempotencyKey": "str",
}, total=False)


class JobSubmission(_JobSubmission, _JobSubmission_optional):
    pass


# A TPU that a job holds or waits for.
JobTpu = TypedDict("JobTpu", {
    "name": "str",
    "project": "str",
    "zone": "str",
    "accelerator": "str",
    # Of all its nodes; null for a type that jobman does not know.
    "chips": "Union[float, None]",
    "pricing": "Pricing",
    # `ephemeral`: released with the job. `persistent`: it existed before the job and stays after it.
    "ownership": "Literal[\"ephemeral\", \"persistent\"]",
    # Its state at the newest check, that of the cloud if it has one; null before the first check.
    "state": "Union[str, None]",
    # Estimated dollars per hour of all its nodes; null without a known price.
    "pricePerHourUsd": "Union[float, None]",
    # Null while the job waits for it.
    "readyAt": "Union[Instant, None]",
    # Since when it is ready without a command; null while it is in use or not ready.
    "idleSinceAt": "Union[Instant, None]",
})

# A job of the store, with everything that has happened to it.
JobView = TypedDict("JobView", {
    # Six digits; for a job in a cluster its name there.
    "id": "str",
    "name": "str",
    # Null for a job in a cluster that another tool made.
    "owner": "str",
    "backend": "BackendName",
    # The accelerator type; for a job in a cluster its flavor or requests. Null on hosts.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, None]",
    # The zone; for a job in a cluster `context/namespace`. Null on hosts.
    "zone": "Union[str, None]",
    # The hosts in the order of the workers; `localhost` is this machine. Empty for a TPU or a cluster.
    "hosts": "List[HostName]",
    # Address of worker 0; null without capacity.
    "worker0Address": "Union[str, None]",
    "phase": "Phase",
    # The capacity that a finished job still holds: `v4-8`, `2 × v4-16`; null if it holds none.
    "heldCapacity": "Union[str, None]",
    # The reason for the phase, for people.
    "message": "str",
    # The owner's last request.
    "desired": "Desired",
    # Number of resumes.
    "stage": "float",
    # Number of the newest attempt; 0 before the first.
    "attempt": "float",
    # The ends of the newest attempts, 8 at most, oldest first; null for one that has not ended. Empty in a cluster.
    "attemptEnds": "List[Union[Reason, None]]",
    # The reason why the job needs its owner; null without one.
    "attention": "Union[Attention, None]",
    "tags": "List[str]",
    # The values of `--set`, in order.
    "overrides": "List[Override]",
    "createdAt": "Instant",
    # Time at which the phase began.
    "phaseStartedAt": "Instant",
    # Estimated dollars per hour of the capacity held now; null without capacity or without a known price.
    "pricePerHourUsd": "Union[float, None]",
    # True on the TPU emulator: the prices are Google's, and it is free.
    "simulated": "bool",
    # Grows with each change of the job, also by the controller.
    "revision": "float",
    "why": "Why",
    # The progress that the program prints or reports: `step 40,210 of 90,000 (44%)`; null without any.
    "progress": "Union[str, None]",
    # The throughput of the newest attempt, if it differs by more than 10% from the one before; otherwise null.
    "throughput": "Union[str, None]",
    # The worker that is behind, slow or silent while the others are not, as a sentence; null without one.
    "slowWorker": "Union[str, None]",
    # The newest reported texts that are not metrics, as a phrase; null without any.
    "leftOut": "Union[str, None]",
    # The dashboards that the log names.
    "dashboards": "DashboardLinks",
    "checkpoint": "Union[CheckpointView, None]",
    "checkpointDir": "Union[str, None]",
    # The address of that folder in a bucket, such as `gs://my-bucket/runs/000001`; null without one.
    "checkpointUrl": "Union[str, None]",
    # The checkpoint that the newest resumed attempt found at its start; null without one. A newer one may exist.
    "resumedFrom": "Union[ResumedFromView, None]",
    # The consequence of a preemption now, as a sentence; null if no cloud can preempt the job or nothing runs.
    "ifPreempted": "Union[str, None]",
    # The cost so far.
    "cost": "JobCost",
    # The budgets that limit it; `job.budget` also after its end.
    "budgets": "List[BudgetView]",
    "attempts": "List[AttemptView]",
    "workdirCopies": "List[WorkdirCopyView]",
    "allocations": "List[AllocationView]",
    "workers": "List[WorkerView]",
    "spec": "JobSpec",
    "folder": "HostPath",
    "hasFiles": "bool",
})

_KnownTpuState = TypedDict("_KnownTpuState", {
    "kind": "Literal[\"known\"]",
    "state": "str",
    "zone": "str",
    "workers": "float",
})
_KnownTpuState_optional = TypedDict("_KnownTpuState_optional", {
    # The TPU or its queued resource. Absent if neither exists.
    "found": "FoundTpu",
}, total=False)


class KnownTpuState(_KnownTpuState, _KnownTpuState_optional):
    pass


# An object of Kubernetes.
KubernetesObject = Dict[str, Any]

LabEntry_job_parent_1 = TypedDict("LabEntry_job_parent_1", {
    "job": "str",
    "attempt": "float",
    "startMode": "Literal[\"resume\", \"rerun\"]",
})

_LabEntry_job = TypedDict("_LabEntry_job", {
    # The working directory when the job was created, and its number; null if a script ran from elsewhere.
    "directory": "str",
    "directoryNumber": "Union[float, None]",
    "tpu": "str",
    # Arguments of staging.sh after `ka=`, in order: `--config.training.learning_rate=0.01`.
    "configs": "List[str]",
    "tag": "Union[str, None]",
    # False: no rule follows its end (`monitor=False`).
    "monitor": "bool",
    "logStage": "bool",
    # The attempt of another job, on another TPU, that this job resumes or reruns.
    "parent": "Union[LabEntry_job_parent_1, None]",
    # The stage of its first attempt: the parent's stage + 1 after a resume, else 0.
    "baseStage": "float",
})
_LabEntry_job_optional = TypedDict("_LabEntry_job_optional", {
    # Its bookings are in a spreadsheet. Absent: in the table of the database.
    "spreadsheet": "Literal[True]",
    # Jobs that its newest start has ended on the TPU. Its script ends what they left there. Absent: none.
    "replaces": "List[str]",
    # Programs of no job to whose end the user has agreed. Its newest start ends them before its script. Absent: none.
    "foreignPrograms": "List[DeviceHolder]",
}, total=False)


class LabEntry_job(_LabEntry_job, _LabEntry_job_optional):
    pass


LabEntry = TypedDict("LabEntry", {
    "job": "LabEntry_job",
    "booking": "RunBooking",
})

LabJob_parent_1 = TypedDict("LabJob_parent_1", {
    "job": "str",
    "attempt": "float",
    "startMode": "Literal[\"resume\", \"rerun\"]",
})

_LabJob = TypedDict("_LabJob", {
    "job": "str",
    # Name in the registry; the same as the job's owner.
    "user": "str",
    # The working directory when the job was created, and its number; null if a script ran from elsewhere.
    "directory": "str",
    "directoryNumber": "Union[float, None]",
    "tpu": "str",
    # Arguments of staging.sh after `ka=`, in order: `--config.training.learning_rate=0.01`.
    "configs": "List[str]",
    "tag": "Union[str, None]",
    # False: no rule follows its end (`monitor=False`).
    "monitor": "bool",
    "logStage": "bool",
    # The attempt of another job, on another TPU, that this job resumes or reruns.
    "parent": "Union[LabJob_parent_1, None]",
    # The stage of its first attempt: the parent's stage + 1 after a resume, else 0.
    "baseStage": "float",
})
_LabJob_optional = TypedDict("_LabJob_optional", {
    # Its bookings are in a spreadsheet. Absent: in the table of the database.
    "spreadsheet": "Literal[True]",
    # Jobs that its newest start has ended on the TPU. Its script ends what they left there. Absent: none.
    "replaces": "List[str]",
    # Programs of no job to whose end the user has agreed. Its newest start ends them before its script. Absent: none.
    "foreignPrograms": "List[DeviceHolder]",
}, total=False)


# The facts of a `tpu run` that are not in the job's spec.
class LabJob(_LabJob, _LabJob_optional):
    pass


_LabRestart = TypedDict("_LabRestart", {
    "booking": "RunBooking",
    # Gets a window.
    "attempt": "float",
})
_LabRestart_optional = TypedDict("_LabRestart_optional", {
    # Jobs that its newest start has ended on the TPU. Its script ends what they left there. Absent: none.
    "replaces": "List[str]",
    # Programs of no job to whose end the user has agreed. Its newest start ends them before its script. Absent: none.
    "foreignPrograms": "List[DeviceHolder]",
    # Its bookings are in a spreadsheet. Absent: in the table of the database.
    "spreadsheet": "Literal[True]",
}, total=False)


# The lab's part of a command that starts a job again: the store writes it in the transaction of the command.
class LabRestart(_LabRestart, _LabRestart_optional):
    pass


# A persistent TPU that the lab shares. The lab itself decides who may use it.
LabTpu = TypedDict("LabTpu", {
    # The full name in the cloud: `kmh-tpuvm-v2-32-1`.
    "name": "str",
    # Null: the `tpu.project` of the settings.
    "project": "Union[str, None]",
    # Null until a user or an observation provides it.
    "zone": "Union[str, None]",
    # `v2-32`, `v5litepod-16`.
    "accelerator": "str",
    "pricing": "Literal[\"ondemand\", \"preemptible\", \"spot\"]",
    # Null: the accelerator's default.
    "runtimeVersion": "Union[str, None]",
})

LabUsage = TypedDict("LabUsage", {
    # Free ones first, then those that are booked and idle.
    "tpus": "List[UsedTpu]",
    "sheet": "SheetState",
    # The number of unfinished jobs that the actor may not read. They may be on any of these TPUs.
    "hiddenJobs": "float",
})

# A user of the registry. Such a user owns each job of `tpu`, even if another user typed the command.
LabUser = TypedDict("LabUser", {
    # Unique, and not ambiguous on a command line (names.ts). Letters of any language are allowed.
    "name": "str",
    # Permanent; the lowest free number at creation. `id=3` names the user on a command line.
    "id": "float",
    "role": "Role",
    # The tmux session of the user's windows; unique.
    "session": "str",
    "sheetName": "str",
    # Login names on this machine that belong to this user; empty for users of a shared login.
    "logins": "List[str]",
    # Absolute folders by number, 1 to 100. `run` uses 1 by default.
    "directories": "Dict[str, str]",
    # Short names for config keys: `lr` for `config.training.learning_rate`.
    "aliases": "Dict[str, str]",
    "settings": "UserSettings",
    # From 1. The next window gets this number unless it is taken.
    "nextWindow": "float",
    "createdAt": "Instant",
    # The number of the newest event that `tpu news` has shown; 0 before the first.
    "newsSeen": "float",
})

LabWindow = TypedDict("LabWindow", {
    "user": "str",
    # Unique among the user's uncleared windows. Not reused while a listed window refers to it.
    "window": "float",
    "job": "str",
    "attempt": "float",
    # The time when the script began and got the number.
    "openedAt": "Instant",
    "report": "Union[WindowReport, None]",
    "finishedAt": "Union[Instant, None]",
    # The time when the user closed its tmux window and left the rest of the session open.
    "closedAt": "Union[Instant, None]",
    "clearedAt": "Union[Instant, None]",
})

# A stored change that the sheet does not have.
LateChange = TypedDict("LateChange", {
    "tpu": "str",
    # A sentence with the reason.
    "message": "str",
})

_LimitsSpec = TypedDict("_LimitsSpec", {
    # Longest run of the command in one attempt. Null: no limit.
    "maxRuntimeMs": "Union[Duration, None]",
    # Longest time without output before the attempt counts as hung. Null: no limit.
    "silenceTimeoutMs": "Union[Duration, None]",
    # Longest wait for capacity. Null: no limit.
    "capacityWaitMs": "Union[Duration, None]",
    # Tries of one setup step on one worker, including the first, before the attempt ends with `setup_failed`.
    "setupTries": "float",
})
_LimitsSpec_optional = TypedDict("_LimitsSpec_optional", {
    # Longest time without output after a failed call between workers (`failedCallPatterns`); then the attempt counts as hung. A program that prints such a failure and then nothing waits for a worker that is gone. Absent: no limit.
    "failedCallTimeoutMs": "Duration",
    # US dollars that the job's own capacity may cost since its owner's newest start. Absent: no limit.
    "budgetUsd": "float",
}, total=False)


class LimitsSpec(_LimitsSpec, _LimitsSpec_optional):
    pass


# A part of a log. Over HTTP, `bytes` is the body.
LogPart = TypedDict("LogPart", {
    # Empty at the end of the log. May be fewer than requested although more follow.
    "bytes": "Uint8Array",
    # The offset of the first byte.
    "from": "float",
    # The size of the log at the time of the read.
    "end": "float",
    # True if these bytes reach the end and nothing more is expected; see `LogRef`.
    "isComplete": "bool",
})

# A wanted part of one log, as in `readLog`.
LogPartRequest = TypedDict("LogPartRequest", {
    "id": "str",
    "from": "float",
    "maxBytes": "float",
})

# A log of a job. Its bytes never change; more may be added at its end.
LogRef = TypedDict("LogRef", {
    # The id of the job.
    "job": "str",
    # Identifies the log within its job, such as `attempt_2/command_worker_0`.
    "id": "str",
    "worker": "Union[WorkerId, None]",
    "attempt": "Union[float, None]",
    # The setup step; `job` and `tpu` for the job's own logs; null for the output of the command.
    "step": "Union[str, None]",
    "size": "float",
    # Time of the newest byte.
    "changedAt": "Instant",
    # True if nothing more is expected. A worker that was unreachable may still add to it, as may a new start.
    "isComplete": "bool",
})

_LogSearch = TypedDict("_LogSearch", {
    # Plain text, not a pattern. A line with it in upper or lower case matches. Null: a line that reports an error.
    "text": "Union[str, None]",
    # `next`: the first line at or after the offsets. `previous`: the last line before them.
    "direction": "Literal[\"next\", \"previous\"]",
    "logs": "List[LogSearchStart]",
})
_LogSearch_optional = TypedDict("_LogSearch_optional", {
    # Finds such a line in each log, instead of the nearest of all.
    "inEach": "Literal[True]",
}, total=False)


# A search over several logs of a job, as if their lines were one list in the order of their times.
class LogSearch(_LogSearch, _LogSearch_optional):
    pass


# A log that is searched.
LogSearchStart = TypedDict("LogSearchStart", {
    "id": "str",
    # The offset of the beginning of a line, or the size of the log.
    "from": "float",
})

LogSearchStep_1 = TypedDict("LogSearchStep_1", {
    "kind": "Literal[\"read\"]",
    "bytes": "float",
    "of": "float",
})

LogSearchStep_2 = TypedDict("LogSearchStep_2", {
    "kind": "Literal[\"result\"]",
    "line": "Union[FoundLogLine, None]",
})

# `read`: the bytes that are read so far, and the most that may be read.
LogSearchStep = Union['LogSearchStep_1', 'LogSearchStep_2']

LoginKey_job = TypedDict("LoginKey_job", {
    # Six digits: `000001`. It never changes.
    "id": "str",
    "owner": "str",
})

# A reference to a private key, with the job that it belongs to.
LoginKey = TypedDict("LoginKey", {
    "job": "LoginKey_job",
    "secret": "SecretRef",
})

ManifestAnswer_1 = TypedDict("ManifestAnswer_1", {
    "kind": "Literal[\"wanted\"]",
    # Files to describe.
    "paths": "List[str]",
    # Files whose content is needed.
    "contents": "List[str]",
    "variables": "List[str]",
})

_ManifestAnswer_2_secrets_item = TypedDict("_ManifestAnswer_2_secrets_item", {
    "secret": "SecretName",
})
_ManifestAnswer_2_secrets_item_optional = TypedDict("_ManifestAnswer_2_secrets_item_optional", {
    "path": "str",
    "variable": "str",
}, total=False)


class ManifestAnswer_2_secrets_item(_ManifestAnswer_2_secrets_item, _ManifestAnswer_2_secrets_item_optional):
    pass


ManifestAnswer_2 = TypedDict("ManifestAnswer_2", {
    "kind": "Literal[\"spec\"]",
    "spec": "JobSpec",
    # The text to create the job with.
    "manifest": "str",
    # The sources of the values of the job's own secrets: a file or a variable.
    "secrets": "List[ManifestAnswer_2_secrets_item]",
    "warnings": "List[ManifestProblem]",
})

# `wanted`: the manifest names files or variables that the same request needs next, with those that it had.
ManifestAnswer = Union['ManifestAnswer_1', 'ManifestAnswer_2']

_ManifestRequest = TypedDict("_ManifestRequest", {
    "text": "str",
})
_ManifestRequest_optional = TypedDict("_ManifestRequest_optional", {
    # The folder of the manifest, absolute: relative paths start there. Without it the manifest has only its text, as in a browser: each file, variable or relative path of its machine is a problem, and no answer is `wanted`.
    "folder": "str",
    # The folder of the user: `~` in a path. With `folder`.
    "home": "str",
    # The name of the file, from which the job gets its name if the manifest has none.
    "file": "str",
    # Values that replace those of keys: `job.name=iris`.
    "sets": "List[str]",
    # By absolute path; those that earlier answers wanted.
    "files": "Dict[str, GivenFile]",
    # Values of environment variables that earlier answers wanted; null for one that is not set.
    "variables": "Dict[str, Union[str, None]]",
}, total=False)


class ManifestRequest(_ManifestRequest, _ManifestRequest_optional):
    pass


# `given_up`: it failed for a day, or for a reason that another try cannot change.
MessageState = Literal["pending", "sent", "given_up"]

# A message about events to one recipient.
MessageView = TypedDict("MessageView", {
    # The idempotency key, which is also part of the Message-ID of a mail.
    "key": "str",
    # `mail:ADDRESS` or the name of a channel.
    "recipient": "str",
    # `given_up`: it failed for a day, or for a reason that another try cannot change.
    "state": "MessageState",
    # Tries so far.
    "tries": "float",
    "createdAt": "Instant",
    # Time of its delivery, or at which jobman gave up; null while it is pending.
    "endedAt": "Union[Instant, None]",
    # Time of the next try; null once it has ended.
    "nextAt": "Union[Instant, None]",
    # The failure of the newest try, with the text of the server; null without one.
    "error": "Union[str, None]",
    # More than one in a digest.
    "notices": "List[NoticeView]",
})

# One value of one metric on one worker.
MetricPointView = TypedDict("MetricPointView", {
    "attempt": "float",
    # Null if the program printed none.
    "step": "Union[Fraction, None]",
    # The time that the program reported, or at which its line arrived; null if neither is known.
    "at": "Union[Instant, None]",
    # JSON has no numbers for the three texts.
    "value": "Union[Fraction, Literal[\"NaN\"], Literal[\"Infinity\"], Literal[\"-Infinity\"]]",
    # The id; for a job in a cluster its name there.
    "job": "str",
    # Its name; `throughput` is in steps per second.
    "metric": "str",
    "worker": "WorkerId",
})

# The points of one metric.
MetricSeriesView = TypedDict("MetricSeriesView", {
    # As the program prints it. `throughput` is computed from its steps.
    "name": "str",
    # `steps/s` for the throughput; null for what the program prints.
    "unit": "Union[str, None]",
    # In the order in which they were printed. Of each stretch the least and the greatest value are kept.
    "points": "List[MetricValue]",
    # The number of all points, including those that are not in `points`.
    "count": "float",
    "last": "MetricValue",
    # The least of all finite values; null without one.
    "min": "Union[float, None]",
    "max": "Union[float, None]",
    # The number of points that are NaN or infinite.
    "nonFinite": "float",
    "firstNonFinite": "Union[MetricValue, None]",
})

# One value of one metric.
MetricValue = TypedDict("MetricValue", {
    "attempt": "float",
    # Null if the program printed none.
    "step": "Union[Fraction, None]",
    # The time that the program reported, or at which its line arrived; null if neither is known.
    "at": "Union[Instant, None]",
    # JSON has no numbers for the three texts.
    "value": "Union[Fraction, Literal[\"NaN\"], Literal[\"Infinity\"], Literal[\"-Infinity\"]]",
})

MetricsStep_1 = TypedDict("MetricsStep_1", {
    "kind": "Literal[\"read\"]",
    "attempt": "float",
    "bytes": "float",
    "size": "Union[float, None]",
})

MetricsStep_2 = TypedDict("MetricsStep_2", {
    "kind": "Literal[\"result\"]",
    "metrics": "MetricsView",
})

# `read`: the part of a log that is read so far; null for a size that is not known. The result comes last.
MetricsStep = Union['MetricsStep_1', 'MetricsStep_2']

# The metrics that a job's program prints or reports.
MetricsView = TypedDict("MetricsView", {
    "id": "str",
    "name": "str",
    "attempts": "List[AttemptMetrics]",
    # Of all metrics of the attempts, in the order in which they first occur; `throughput` last.
    "names": "List[str]",
    "series": "List[MetricSeriesView]",
    # As in `JobView`.
    "throughput": "Union[str, None]",
    "slowWorker": "Union[str, None]",
    # The reported texts and points that are left out, as a phrase; null without any.
    "leftOut": "Union[str, None]",
    "dashboards": "DashboardLinks",
})

NamedHost = TypedDict("NamedHost", {
    "name": "str",
    # `[user@]host[:port]`, or a name of ssh_config; null: this machine.
    "ssh": "Union[str, None]",
    # Maximum number of jobs that run there at the same time.
    "slots": "float",
    # The slots share them evenly; null: not declared.
    "gpus": "Union[float, None]",
})

# The values that are chosen for a new user.
NewLabUser = TypedDict("NewLabUser", {
    # Unique, and not ambiguous on a command line (names.ts). Letters of any language are allowed.
    "name": "str",
    # The tmux session of the user's windows; unique.
    "session": "str",
    "sheetName": "str",
    # Login names on this machine that belong to this user; empty for users of a shared login.
    "logins": "List[str]",
    # Absolute folders by number, 1 to 100. `run` uses 1 by default.
    "directories": "Dict[str, str]",
    # Null: the lowest free one.
    "id": "Union[float, None]",
    "timeZone": "str",
})

_NewUser = TypedDict("_NewUser", {
    "name": "UserName",
})
_NewUser_optional = TypedDict("_NewUser_optional", {
    # Default: member.
    "role": "Role",
    "logins": "List[str]",
    "account": "str",
}, total=False)


class NewUser(_NewUser, _NewUser_optional):
    pass


_NewsEvent_event_1 = TypedDict("_NewsEvent_event_1", {
    "by": "str",
    "kind": "Literal[\"created\"]",
    "at": "Instant",
})
_NewsEvent_event_1_optional = TypedDict("_NewsEvent_event_1_optional", {
    "overrides": "List[Override]",
}, total=False)


class NewsEvent_event_1(_NewsEvent_event_1, _NewsEvent_event_1_optional):
    pass


_NewsEvent_event_2 = TypedDict("_NewsEvent_event_2", {
    "verb": "str",
    "by": "str",
    "desired": "Desired",
    "kind": "Literal[\"command_received\"]",
    "at": "Instant",
})
_NewsEvent_event_2_optional = TypedDict("_NewsEvent_event_2_optional", {
    "startMode": "Literal[\"fresh\", \"resume\", \"rerun\"]",
    # With stop: there was no ready capacity to keep.
    "keepsNothing": "Literal[True]",
    # With resume: the new copy of the working directory.
    "workdirCopy": "float",
    # The blob with the list of the files of that copy.
    "workdirTree": "Digest",
    # With resume and rerun: US dollars that replace `job.budget`.
    "budgetUsd": "float",
}, total=False)


class NewsEvent_event_2(_NewsEvent_event_2, _NewsEvent_event_2_optional):
    pass


_NewsEvent_event_3 = TypedDict("_NewsEvent_event_3", {
    # Counts resumes: 0 for a start from the beginning.
    "stage": "float",
    # `resume` sets JOBMAN_RESUME_FROM.
    "startMode": "Literal[\"fresh\", \"resume\", \"rerun\"]",
    # False if a recovery rule made it. Budgets and backoffs count from the newest attempt with true.
    "startedByOwner": "bool",
    # Its allocation, by ordinal. It may change until the command starts.
    "allocation": "float",
    # Backoff: no request for capacity and no start of the command before this time.
    "notBeforeAt": "Instant",
    "attempt": "float",
    "kind": "Literal[\"attempt_created\"]",
    "at": "Instant",
})
_NewsEvent_event_3_optional = TypedDict("_NewsEvent_event_3_optional", {
    # As in the start request.
    "commandOnly": "Literal[True]",
    # The copy of the working directory that it runs. Absent if the job has none.
    "workdirCopy": "float",
}, total=False)


class NewsEvent_event_3(_NewsEvent_event_3, _NewsEvent_event_3_optional):
    pass


_NewsEvent_event_4 = TypedDict("_NewsEvent_event_4", {
    "error": "CloudError",
    "allocation": "float",
    "kind": "Literal[\"allocation_refused\"]",
    "at": "Instant",
})
_NewsEvent_event_4_optional = TypedDict("_NewsEvent_event_4_optional", {
    "nextAt": "Instant",
}, total=False)


class NewsEvent_event_4(_NewsEvent_event_4, _NewsEvent_event_4_optional):
    pass


_NewsEvent_event_5 = TypedDict("_NewsEvent_event_5", {
    "message": "str",
    "allocation": "float",
    "kind": "Literal[\"allocation_released\"]",
    "at": "Instant",
})
_NewsEvent_event_5_optional = TypedDict("_NewsEvent_event_5_optional", {
    # A finished job kept it until this budget was used up.
    "budget": "Spending",
}, total=False)


class NewsEvent_event_5(_NewsEvent_event_5, _NewsEvent_event_5_optional):
    pass


NewsEvent_event_6 = TypedDict("NewsEvent_event_6", {
    "worker": "float",
    "step": "str",
    "tries": "float",
    "message": "str",
    "allocation": "float",
    "attempt": "float",
    "kind": "Literal[\"step_failed\"]",
    "at": "Instant",
})

NewsEvent_event_7 = TypedDict("NewsEvent_event_7", {
    "workers": "List[WorkerId]",
    "attempt": "float",
    "kind": "Literal[\"attempt_started\"]",
    "at": "Instant",
})

_NewsEvent_event_8 = TypedDict("_NewsEvent_event_8", {
    "reason": "Reason",
    "evidence": "Evidence",
    "attempt": "float",
    "kind": "Literal[\"attempt_ending\"]",
    "at": "Instant",
})
_NewsEvent_event_8_optional = TypedDict("_NewsEvent_event_8_optional", {
    "programEndedAt": "Instant",
}, total=False)


class NewsEvent_event_8(_NewsEvent_event_8, _NewsEvent_event_8_optional):
    pass


NewsEvent_event_9 = TypedDict("NewsEvent_event_9", {
    "verdict": "Literal[\"succeeded\", \"failed\", \"stopped\", \"cancelled\"]",
    "reason": "Reason",
    "kind": "Literal[\"finished\"]",
    "at": "Instant",
})

NewsEvent_event_10 = TypedDict("NewsEvent_event_10", {
    "kind": "Literal[\"removed\"]",
    "at": "Instant",
})

NewsEvent = TypedDict("NewsEvent", {
    # Grows with every stored event of any job.
    "number": "float",
    "job": "str",
    "event": "Union[NewsEvent_event_1, NewsEvent_event_2, NewsEvent_event_3, NewsEvent_event_4, NewsEvent_event_5, NewsEvent_event_6, NewsEvent_event_7, NewsEvent_event_8, NewsEvent_event_9, NewsEvent_event_10]",
})

NfsShare = TypedDict("NfsShare", {
    # `10.0.0.2:/kmh_nfs_ssd`.
    "source": "str",
    "target": "str",
    # Zones whose TPUs mount it, with `*` as in shells; empty: all.
    "zones": "List[str]",
    # Options of mount(8); empty: `vers=3`.
    "options": "str",
})

# A reported event.
NoticeView = TypedDict("NoticeView", {
    # `test`: a message of `jobman notify test`.
    "event": "Union[NotifyEvent, Literal[\"test\"]]",
    # Id of the job; for a job in a cluster its name; null without a job.
    "job": "Union[str, None]",
    # Name of the job; null without a job.
    "name": "Union[str, None]",
    # The user whom the job belongs to; null without a job.
    "owner": "Union[str, None]",
    "at": "Instant",
    "message": "str",
})

NotifyEvent = Literal["started", "recovered", "succeeded", "failed", "stopped", "preempted", "unreachable", "setup_failed", "hung", "waiting", "budget_warning", "budget_used", "budget_released", "orphans"]

# A choice of events and recipients. An absent field leaves the choice to the settings.
NotifySpec = TypedDict("NotifySpec", {
    # The events to report. Empty: none.
    "on": "List[NotifyEvent]",
    # The recipients: `mail:ADDRESS` or the name of a channel of the settings.
    "to": "List[str]",
}, total=False)

OnBehalf = TypedDict("OnBehalf", {
    # The owner for whom the actor gives the command, which is recorded as the actor's.
    "onBehalfOf": "UserName",
}, total=False)

_Orphan = TypedDict("_Orphan", {
    "backend": "BackendName",
    # Google's full name, which is enough to release it: `projects/lab/locations/us-west4-a/nodes/vit-000042-1`.
    "resource": "str",
    "installation": "str",
    "job": "str",
    "allocation": "float",
    "state": "str",
})
_Orphan_optional = TypedDict("_Orphan_optional", {
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, Literal[\"reserved\"], None]",
    # The slices of this resource, for the usage ledger. Absent in the store, like its type and pricing.
    "slices": "List[SliceState]",
}, total=False)


class Orphan(_Orphan, _Orphan_optional):
    pass


OrphanReport = TypedDict("OrphanReport", {
    # Of this installation: recorded orphans, and labelled TPUs that no job claims.
    "orphans": "List[OrphanView]",
    # Shared TPUs of this installation without a job; only `tpu delete` deletes them.
    "shared": "List[TpuRow]",
    "others": "List[TpuRow]",
    "unchecked": "List[UncheckedLocation]",
    # False if there were queries and no project answered, so that nothing is known.
    "anyAnswered": "bool",
    "forgettable": "List[str]",
})

_OrphanView = TypedDict("_OrphanView", {
    "backend": "BackendName",
    # Google's full name, which is enough to release it: `projects/lab/locations/us-west4-a/nodes/vit-000042-1`.
    "resource": "str",
    "installation": "str",
    "job": "str",
    "allocation": "float",
    "state": "str",
    "presence": "Literal[\"present\", \"gone\", \"unknown\"]",
    "message": "str",
})
_OrphanView_optional = TypedDict("_OrphanView_optional", {
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, Literal[\"reserved\"], None]",
    # The slices of this resource, for the usage ledger. Absent in the store, like its type and pricing.
    "slices": "List[SliceState]",
}, total=False)


class OrphanView(_OrphanView, _OrphanView_optional):
    pass


OutcomeResult_1 = TypedDict("OutcomeResult_1", {
    "kind": "Literal[\"done\"]",
})

_OutcomeResult_2 = TypedDict("_OutcomeResult_2", {
    "kind": "Literal[\"refused\"]",
    "evidence": "Evidence",
})
_OutcomeResult_2_optional = TypedDict("_OutcomeResult_2_optional", {
    "error": "CloudError",
}, total=False)


class OutcomeResult_2(_OutcomeResult_2, _OutcomeResult_2_optional):
    pass


_OutcomeResult_3 = TypedDict("_OutcomeResult_3", {
    "kind": "Literal[\"failed\"]",
    "evidence": "Evidence",
})
_OutcomeResult_3_optional = TypedDict("_OutcomeResult_3_optional", {
    "error": "CloudError",
}, total=False)


class OutcomeResult_3(_OutcomeResult_3, _OutcomeResult_3_optional):
    pass


OutcomeResult_4 = TypedDict("OutcomeResult_4", {
    "kind": "Literal[\"unclear\"]",
    "evidence": "Evidence",
})

# These kinds lead to different decisions; finer ones would not.
OutcomeResult = Union['OutcomeResult_1', 'OutcomeResult_2', 'OutcomeResult_3', 'OutcomeResult_4']

Override = TypedDict("Override", {
    # Path of the key: `command.lr`.
    "key": "str",
    # As written. `***` if it looks like a secret.
    "value": "str",
})

# One entry of the setting `prices`: exactly one of the first three fields, and exactly one of the two amounts.
OwnPrice = TypedDict("OwnPrice", {
    # A type like `v6e-8`, a generation like `v5e`, or a pattern like `v4-*`.
    "accelerator": "str",
    # Name of a resource flavor of Kubernetes jobs.
    "flavor": "str",
    # Name of a machine; `localhost` is the machine of the controller.
    "host": "str",
    # A zone, or a pattern like `us-*`.
    "zone": "str",
    "pricing": "PricedTier",
    # For one slice of the accelerator, one pod of the flavor, or the host.
    "usdPerHour": "float",
    "usdPerChipHour": "float",
    # A day (from 00:00 UTC) or a time.
    "since": "str",
}, total=False)

# The budget of the job's owner in one period of a grant. The jobs of the owner that match the grant share it.
OwnerBudget = TypedDict("OwnerBudget", {
    # The capacity of the grant: `spot v4-* in us-*`, `all TPUs`.
    "grant": "str",
    "period": "BudgetPeriod",
    # The end of the period: a midnight in UTC, at which the next one begins.
    "endsAt": "Instant",
})

# The spending of a user in a period, from the usage ledger, and the US dollars per hour being spent at that time.
OwnerSpending = TypedDict("OwnerSpending", {
    # By the job since its owner's newest start, or by its owner since the beginning of the period.
    "spentUsd": "float",
    "budgetUsd": "float",
    # Absent: `job.budget`.
    "ownerBudget": "OwnerBudget",
    "rateUsd": "float",
})

PassDifference = TypedDict("PassDifference", {
    # `wakeAt`: the time of the next pass. `job`: the state of the job after the pass.
    "part": "Literal[\"situation\", \"events\", \"actions\", \"wakeAt\", \"job\"]",
    # The part of the recorded decision, without the sentences that both have.
    "recorded": "List[str]",
    # The same part of the decision of this version.
    "today": "List[str]",
})

PassList = TypedDict("PassList", {
    "id": "str",
    "name": "str",
    "owner": "UserName",
    "passes": "List[PassView]",
    # The passes whose inputs can be read, and the others: another version recorded them, or changed the job since.
    "readable": "float",
    "unreadable": "float",
})

# A recorded pass of the controller over a job, or a recorded command.
PassView = TypedDict("PassView", {
    # Number of the commit, from 1.
    "pass": "float",
    # Time of the decision.
    "at": "Instant",
    # The newest attempt after it; null before the first.
    "attempt": "Union[float, None]",
    # The version of jobman that decided; null for a command, or if the inputs cannot be read.
    "version": "Union[str, None]",
    # The row of the table that decided; null for a command.
    "situation": "Union[str, None]",
    # Null for a command, or for a situation of another version.
    "description": "Union[str, None]",
    # Sentences: the outcomes of actions, and the facts that the pass before did not see.
    "seen": "List[str]",
    # Sentences: the events, and the actions that should be in progress.
    "decided": "List[str]",
    # Time of the next pass at the latest; null if only a command can change anything.
    "nextAt": "Union[Instant, None]",
    # Later passes that requested the same actions and changed nothing.
    "repeats": "float",
    # Time of the last of them; null without one.
    "repeatedAt": "Union[Instant, None]",
    # The observation and the actions, as jobman has recorded them; null for a command, or if they cannot be read.
    "recorded": "Union[RecordedPass, None]",
    # With `--decide`: the parts of the decision that this version decides differently.
    "differences": "List[PassDifference]",
})

# `setup` runs one step and has its own operation.
PerformedCommand = Union['Verb', Literal["clean"]]

Phase = Literal["queued", "provisioning", "setup", "running", "recovering", "stopping", "succeeded", "failed", "stopped", "cancelled"]

Plan_reasons_item = TypedDict("Plan_reasons_item", {
    # The cause.
    "kind": "Literal[\"tpu_in_use\", \"checkpoints_in_use\", \"not_granted\", \"price\", \"budget_used\", \"user_limit\"]",
    # A sentence without its full stop.
    "message": "str",
    # `about $4.00/h`; null if no price is known or the command adds no cost.
    "cost": "Union[str, None]",
    # Another next step, as a sentence.
    "remedy": "str",
    # True if the price is the only reason: a terminal asks, and a script prints the price and continues.
    "mayProceed": "bool",
})

# The answer of `create --dry-run`: requests, rules and price. Nothing is stored.
Plan = TypedDict("Plan", {
    "name": "str",
    "backend": "BackendName",
    "requests": "List[str]",
    "steps": "List[str]",
    "command": "str",
    # Null without an environment.
    "script": "Union[str, None]",
    "rules": "List[str]",
    "limits": "List[str]",
    "pricePerHourUsd": "Union[float, None]",
    "simulated": "bool",
    # The typical wait for such capacity, from jobs of this installation; null with fewer than five waits.
    "typicalWait": "Union[str, None]",
    # The questions of `create`. It refuses a job with the reason `budget_used`.
    "reasons": "List[Plan_reasons_item]",
})

PodLogQuery = TypedDict("PodLogQuery", {
    "follow": "bool",
    "previous": "bool",
    "tail": "float",
    "since": "Instant",
    # Keeps the cluster's timestamp and one space at the start of each line.
    "timestamps": "bool",
    # As in `ClusterLogQuery`, in Base64.
    "resumeAfter": "str",
}, total=False)

# The usage of a pod, summed over its containers, in a time that ended at `at`.
PodUsage = TypedDict("PodUsage", {
    # In the namespace of the query.
    "pod": "str",
    "cpus": "float",
    "memoryBytes": "float",
    "at": "Instant",
})

# The ids of the jobs of one pool: those that hold a slot, and those that wait, the next one first.
PoolQueue = TypedDict("PoolQueue", {
    "pool": "str",
    "slots": "float",
    "slotsUsed": "float",
    "usedBy": "List[str]",
    "waiting": "List[str]",
})

PricedTier = Literal["spot", "preemptible", "ondemand", "reserved"]

Pricing = Literal["spot", "ondemand", "preemptible"]

PriorityClass = TypedDict("PriorityClass", {
    "name": "str",
    "value": "float",
    "isDefault": "bool",
})

QueueList = TypedDict("QueueList", {
    # By host and TPU in the order in which jobman starts them, then the requests to clouds, the longest wait first.
    "rows": "List[QueuedRow]",
    # The number of waiting jobs that are left out.
    "more": "float",
    # The hosts of the settings; this machine is the first.
    "hosts": "List[PoolQueue]",
})

# The position in the order of jobman. Clouds do not publish theirs.
QueuedPosition = TypedDict("QueuedPosition", {
    # The host or the TPU. `localhost` is this machine.
    "pool": "HostName",
    # From 1.
    "position": "float",
    # The number of jobs that wait there.
    "queueLength": "float",
    # The GPUs of the slots that the jobs ahead wait for; null on a host without GPUs, and for a TPU.
    "gpusAhead": "Union[float, None]",
})

# A job that waits.
QueuedRow = TypedDict("QueuedRow", {
    # Six digits; for a job in a cluster its name there.
    "id": "str",
    "name": "str",
    # Null for a job in a cluster that another tool made.
    "owner": "Union[str, None]",
    "backend": "Union[BackendName, Literal[\"kubernetes\"]]",
    # The accelerator type; for a job in a cluster its flavor or requests. Null on hosts.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, None]",
    # The zone; for a job in a cluster `context/namespace`. Null on hosts.
    "zone": "Union[str, None]",
    # The hosts in the order of the workers; `localhost` is this machine. Empty for a TPU or a cluster.
    "hosts": "List[HostName]",
    # Address of worker 0; null without capacity.
    "worker0Address": "Union[str, None]",
    "phase": "Phase",
    # The capacity that a finished job still holds: `v4-8`, `2 × v4-16`; null if it holds none.
    "heldCapacity": "Union[str, None]",
    # The reason for the phase, for people.
    "message": "str",
    # The owner's last request.
    "desired": "Desired",
    # Number of resumes.
    "stage": "float",
    # Number of the newest attempt; 0 before the first.
    "attempt": "float",
    # The ends of the newest attempts, 8 at most, oldest first; null for one that has not ended. Empty in a cluster.
    "attemptEnds": "List[Union[Reason, None]]",
    # The reason why the job needs its owner; null without one.
    "attention": "Union[Attention, None]",
    "tags": "List[str]",
    # The values of `--set`, in order.
    "overrides": "List[Override]",
    "createdAt": "Instant",
    # Time at which the phase began.
    "phaseStartedAt": "Instant",
    # Estimated dollars per hour of the capacity held now; null without capacity or without a known price.
    "pricePerHourUsd": "Union[float, None]",
    # True on the TPU emulator: the prices are Google's, and it is free.
    "simulated": "bool",
    # The requested capacity: `1 slot`, `v5litepod-16 spot in us-west4-a`.
    "requests": "str",
    # The reason for the wait.
    "blockedBy": "BlockedBy",
    # The message of `why` without its subject; null for a job that the actor may not read.
    "sentence": "Union[str, None]",
    # Null for capacity of a cloud.
    "queuePosition": "Union[QueuedPosition, None]",
    # Time of its request, or of the end of the pause before it.
    "waitsSinceAt": "Instant",
    # Null with fewer than five waits, and for a slot or a TPU in use.
    "typicalWait": "Union[TypicalWaitView, None]",
    # Time of the next request or check of the controller; null if no time is fixed.
    "nextAt": "Union[Instant, None]",
})

QuotaHolder = TypedDict("QuotaHolder", {
    # The owner of the job, the user in its metadata, or the installation; null: the creator is not known.
    "owner": "Union[str, None]",
    # Id of the job of this installation; null without one.
    "job": "Union[str, None]",
    # Name of the node or queued resource; of a job that waits, the name of the job.
    "name": "str",
    # Google's state of the node, or of the queued resource if there is no node; `WAITING` for a job.
    "state": "str",
    # `requested`: a queued resource that waits for capacity. `waiting`: a job of this installation without a request at Google, which may have refused it. `used`: everything else.
    "use": "Literal[\"used\", \"requested\", \"waiting\"]",
    # Its chips.
    "chips": "float",
    # The reason why it can be released. `ended`: the TPU was preempted, has failed or was terminated, and Google counts it until it is deleted. `orphan`: no job claims it. `idle`: a finished job keeps it. Null while it is in use.
    "reclaimable": "Literal[\"ended\", \"orphan\", \"idle\", None]",
    # The command that releases it; null if its job does that, or if it is not reclaimable.
    "command": "Union[str, None]",
})

# A limit as Google sets it: of one zone, or of a region and all its zones.
QuotaLimitRow = TypedDict("QuotaLimitRow", {
    # The catalogue's name: `v5e`.
    "generation": "str",
    # `pod`: v2 and v3 slices of several machines. `serving`: v5litepod-1, -4 and -8. Null: all others.
    "variant": "Literal[\"pod\", \"serving\", None]",
    "pricing": "QuotaPricing",
    "project": "str",
    # Both limits of a zone apply: its own, and the one that it shares with the other zones of its region.
    "scope": "Literal[\"zone\", \"region\"]",
    # The zone or the region.
    "location": "str",
    # Google's id of the quota.
    "quotaId": "str",
    # The limit in chips.
    "limitChips": "float",
    # Time at which the limit was read.
    "limitReadAt": "Instant",
    # The limit minus the chips of TPUs and queued resources in the zone or region, at least 0; null if the TPUs there could not be listed.
    "leftChips": "Union[float, None]",
})

# Preemptible TPUs share the quota of spot.
QuotaPricing = Literal["spot", "ondemand", "reserved"]

QuotaReport_unreadable_item = TypedDict("QuotaReport_unreadable_item", {
    "project": "str",
    "quotas": "List[str]",
})

QuotaReport = TypedDict("QuotaReport", {
    "rows": "List[QuotaRow]",
    # Every known limit once.
    "limits": "List[QuotaLimitRow]",
    "unread": "List[UnreadLimits]",
    # Projects with quotas whose entries have an unexpected form.
    "unreadable": "List[QuotaReport_unreadable_item]",
    # Locations whose TPUs could not be listed.
    "unchecked": "List[UncheckedLocation]",
    # TPUs of a type that the catalogue does not know; no row counts them.
    "uncounted": "List[str]",
    # False if no project answered at all.
    "anyAnswered": "bool",
    "projects": "List[str]",
    # Those of `projects` that the TPU emulator serves.
    "simulatedProjects": "List[str]",
    # The flag that a mistyped project or zone of the query probably means.
    "suggestion": "Union[str, None]",
})

QuotaRow = TypedDict("QuotaRow", {
    "project": "str",
    "zone": "str",
    # `v5e`.
    "generation": "str",
    # `pod`: v2 and v3 slices of several machines. `serving`: v5litepod-1, -4 and -8. Null: all others.
    "variant": "Literal[\"pod\", \"serving\", None]",
    # Preemptible TPUs count as spot.
    "pricing": "QuotaPricing",
    # Google's id of the quota that leaves the least.
    "quotaId": "str",
    # That quota is for the zone, or for its region: then used and requested chips of other zones count too.
    "scope": "Literal[\"zone\", \"region\"]",
    # `unknown`: the limit could not be read, or Google lists none.
    "limitState": "Literal[\"limited\", \"unlimited\", \"unknown\"]",
    # Null without a known limit.
    "limitChips": "Union[float, None]",
    # Time at which the limit was read; null if it could not be read.
    "limitReadAt": "Union[Instant, None]",
    # Chips of nodes, and of queued resources that have failed or lost their nodes; null if the zone could not be checked.
    "usedChips": "Union[float, None]",
    # Part of the used chips that can be released: stopped but still counted, orphans, idle.
    "reclaimableChips": "Union[float, None]",
    # Chips of queued resources and of jobs that wait; only the former take from what is left.
    "requestedChips": "Union[float, None]",
    # The limit minus the chips of TPUs and queued resources, at least 0; null if one of them is not known.
    "leftChips": "Union[float, None]",
    # The TPUs that use or request the chips, largest first.
    "holders": "List[QuotaHolder]",
})

# Reason for the end of an attempt. `preempted` is the cloud's act, `stopped` the owner's.
Reason = Literal["succeeded", "stopped", "preempted", "unreachable", "allocation_failed", "setup_failed", "command_failed", "hung", "timed_out", "budget"]

# A recipient of unfinished jobs or of events that are not delivered yet.
RecipientInUse = TypedDict("RecipientInUse", {
    "recipient": "str",
    # The ids of the unfinished jobs whose manifest names it.
    "jobs": "List[str]",
    "events": "float",
})

# A recipient of the settings.
RecipientView = TypedDict("RecipientView", {
    # `mail:ADDRESS` or the name of a channel.
    "recipient": "str",
    # The way to it; null if the settings have no such channel.
    "channel": "Literal[\"mail\", \"slack\", \"webhook\", \"command\", None]",
    # True if it gets the events of all jobs whose owner or manifest names no other recipients.
    "allJobs": "bool",
    # The owners whose jobs are reported to it (`notify.users`).
    "owners": "List[str]",
    # The owners who have chosen other recipients.
    "otherOwners": "List[str]",
    # The reason for which no message can reach it, for people; null if the settings are complete.
    "problem": "Union[str, None]",
})

# A value that was observed at that time.
RecordedFacts_allocations_value_1 = TypedDict("RecordedFacts_allocations_value_1", {
    "kind": "Literal[\"known\"]",
    "value": "AllocationStatus",
    "observedAt": "Instant",
})

# A value that was observed at that time.
RecordedFacts_alternativeAnswers_1 = TypedDict("RecordedFacts_alternativeAnswers_1", {
    "kind": "Literal[\"known\"]",
    "value": "List[AlternativeAnswer]",
    "observedAt": "Instant",
})

# A value that was observed at that time.
RecordedFacts_ownerSpending_1 = TypedDict("RecordedFacts_ownerSpending_1", {
    "kind": "Literal[\"known\"]",
    "value": "List[OwnerSpending]",
    "observedAt": "Instant",
})

_RecordedFacts = TypedDict("_RecordedFacts", {
    # False while the job must wait for slots of its hosts or for its persistent TPU (`queuePositionOf`).
    "admitted": "bool",
    # By ordinal.
    "allocations": "Dict[str, Union[RecordedFacts_allocations_value_1, Unknown]]",
    # By allocation and worker: `1/0`. Without the time of an answer, which no rule uses and which changes in every pass.
    "workers": "Dict[str, RecordedWorker]",
})
_RecordedFacts_optional = TypedDict("_RecordedFacts_optional", {
    # The slots that an admitted job got, in the order of its hosts. Absent: it needs none.
    "slots": "List[Slot]",
    # Newest answer of each alternative to any job, while the job can choose. Absent counts as unknown.
    "alternativeAnswers": "Union[RecordedFacts_alternativeAnswers_1, Unknown]",
    # The spending of the job's owner in the current period, for each budget of a grant that matches the job. Absent: no budget limits the owner.
    "ownerSpending": "Union[RecordedFacts_ownerSpending_1, Unknown]",
    # Allocations whose request was committed by a process that died before it recorded the reply. Absent: none.
    "unansweredRequests": "List[float]",
}, total=False)


class RecordedFacts(_RecordedFacts, _RecordedFacts_optional):
    pass


_RecordedOutcome = TypedDict("_RecordedOutcome", {
    "subject": "str",
    "at": "Instant",
    "result": "OutcomeResult",
})
_RecordedOutcome_optional = TypedDict("_RecordedOutcome_optional", {
    # The attempt of the action. The outcome counts there, even if a later attempt is open. Absent: none.
    "attempt": "float",
}, total=False)


# `subject` is its `subjectKey`.
class RecordedOutcome(_RecordedOutcome, _RecordedOutcome_optional):
    pass


RecordedPass = TypedDict("RecordedPass", {
    "format": "float",
    # The version of jobman that decided.
    "version": "str",
    "now": "Instant",
    "facts": "RecordedFacts",
    "outcomes": "List[RecordedOutcome]",
    # By `subjectKey`, the other fields of each action.
    "actions": "Dict[str, Dict[str, Any]]",
    "wakeAt": "Union[Instant, None]",
})

RecordedWorker_1 = TypedDict("RecordedWorker_1", {
    "kind": "Literal[\"known\"]",
    "value": "WorkerStatus",
})

RecordedWorker = Union['RecordedWorker_1', 'Unknown']

# Reasons that a recovery rule may answer. The others end the job.
RecoverableReason = Literal["succeeded", "preempted", "unreachable", "setup_failed", "command_failed", "hung"]

_RecoveryRule = TypedDict("_RecoveryRule", {
    "reason": "RecoverableReason",
    "answer": "RuleAnswer",
})
_RecoveryRule_optional = TypedDict("_RecoveryRule_optional", {
    # The pattern that the evidence must name: one of `failurePatterns` or `RecoverySpec.customPatterns`.
    "evidence": "str",
    # The exit code must be one of these.
    "exitCodes": "List[float]",
    # The evidence must name this worker.
    "worker": "float",
    # With a new allocation: avoid the zone of the ended attempt while the spec has alternatives in another.
    "avoidZone": "Literal[True]",
    # Number of ends that this rule answers with another attempt, instead of the budget. The next end fails the job.
    "limit": "float",
    # Backoff of this rule, instead of the job's: the first delay, doubled up to the second.
    "delayMs": "Duration",
    "delayMaxMs": "Duration",
}, total=False)


# A row of the recovery table. The first row that matches the reason and all given conditions answers.
class RecoveryRule(_RecoveryRule, _RecoveryRule_optional):
    pass


# Number of ended attempts that the job survives since the owner's last command or its own last success. `preemptions` also counts `unreachable`. `setupFailures` counts in a row until a command has run, because a setup that cannot succeed must not hold a TPU for days.
RecoverySpec_budget = TypedDict("RecoverySpec_budget", {
    "preemptions": "float",
    "failures": "float",
    "setupFailures": "float",
})

_RecoverySpec = TypedDict("_RecoverySpec", {
    # Name of the preset of the rules, or `custom`. For people: no rule depends on it.
    "preset": "str",
    "rules": "List[RecoveryRule]",
    # Number of ended attempts that the job survives since the owner's last command or its own last success. `preemptions` also counts `unreachable`. `setupFailures` counts in a row until a command has run, because a setup that cannot succeed must not hold a TPU for days.
    "budget": "RecoverySpec_budget",
    # First delay before a new attempt after a failure of the program. It doubles up to `delayMaxMs`.
    "delayMs": "Duration",
    "delayMaxMs": "Duration",
    # Longest silence of a worker that the cloud reports as ready. `giveUpAt` uses multiples of it.
    "unreachableGraceMs": "Duration",
})
_RecoverySpec_optional = TypedDict("_RecoverySpec_optional", {
    # Texts to find at the end of the job's logs, before any known pattern. `*` matches anything in a line.
    "customPatterns": "List[str]",
}, total=False)


class RecoverySpec(_RecoverySpec, _RecoverySpec_optional):
    pass


# An id of one to six digits, or a name: the newest job; for a change, the only unfinished one.
Ref = str

# Of several jobs with one name, a command that only reads takes the newest, and any other the unfinished one.
RefPurpose = Literal["read", "change"]

ResumeFrom_1 = TypedDict("ResumeFrom_1", {
    "kind": "Literal[\"job\"]",
    "job": "str",
})

_ResumeFrom_2 = TypedDict("_ResumeFrom_2", {
    "kind": "Literal[\"folder\"]",
    "path": "str",
})
_ResumeFrom_2_optional = TypedDict("_ResumeFrom_2_optional", {
    "job": "str",
}, total=False)


class ResumeFrom_2(_ResumeFrom_2, _ResumeFrom_2_optional):
    pass


ResumeFrom_3 = TypedDict("ResumeFrom_3", {
    "kind": "Literal[\"entry\"]",
    "path": "str",
})

# A checkpoint to start from. `create` replaces `job` by that job's checkpoint folder.
ResumeFrom = Union['ResumeFrom_1', 'ResumeFrom_2', 'ResumeFrom_3']

# The newest complete checkpoint at the start of an attempt. Both null: the program found none.
ResumedFrom = TypedDict("ResumedFrom", {
    "entry": "Union[str, None]",
    # The time of the entry in its folder, by the worker's clock.
    "savedAt": "Union[Instant, None]",
})

# The newest complete checkpoint at the start of an attempt.
ResumedFromView = TypedDict("ResumedFromView", {
    "attempt": "float",
    # The name of its file or folder.
    "name": "str",
    # Time of its last change, by the worker's clock; null if it is not known.
    "savedAt": "Union[Instant, None]",
})

RevokedToken = TypedDict("RevokedToken", {
    "view": "TokenView",
    # False if it was already revoked.
    "changed": "bool",
})

Role = Literal["viewer", "member", "admin"]

# A rule's answer: the next step, and its allocation.
RuleAnswer = TypedDict("RuleAnswer", {
    # `resume` continues from the last checkpoint (stage + 1); `rerun` starts from the beginning; `fail` ends the job as failed, `done` as succeeded.
    "then": "Literal[\"resume\", \"rerun\", \"fail\", \"done\"]",
    # `new` on a persistent allocation releases it and requests one of the same name.
    "on": "Literal[\"same\", \"new\"]",
})

_RunBooking = TypedDict("_RunBooking", {
    # The user's name in the sheet.
    "user": "str",
    # The user of the booking when the TPU was checked. A booking by yet another user is a conflict.
    "seenUser": "Union[str, None]",
})
_RunBooking_optional = TypedDict("_RunBooking_optional", {
    # Absent: the notes stay.
    "scriptNote": "str",
}, total=False)


# The booking of a run in the booking sheet.
class RunBooking(_RunBooking, _RunBooking_optional):
    pass


_RunStatus_1 = TypedDict("_RunStatus_1", {
    "attempt": "float",
    "state": "Literal[\"starting\"]",
    "since": "Instant",
})
_RunStatus_1_optional = TypedDict("_RunStatus_1_optional", {
    "resumedFrom": "ResumedFrom",
}, total=False)


class RunStatus_1(_RunStatus_1, _RunStatus_1_optional):
    pass


_RunStatus_2 = TypedDict("_RunStatus_2", {
    "attempt": "float",
    "state": "Literal[\"running\"]",
    "startedAt": "Instant",
    # When the log last grew, or the start if it never did.
    "outputAt": "Instant",
})
_RunStatus_2_optional = TypedDict("_RunStatus_2_optional", {
    "resumedFrom": "ResumedFrom",
}, total=False)


class RunStatus_2(_RunStatus_2, _RunStatus_2_optional):
    pass


_RunStatus_3 = TypedDict("_RunStatus_3", {
    "attempt": "float",
    "state": "Literal[\"exited\"]",
    "exitCode": "float",
    "endedAt": "Instant",
})
_RunStatus_3_optional = TypedDict("_RunStatus_3_optional", {
    "resumedFrom": "ResumedFrom",
    "signal": "str",
    # The `failure` file of the run folder: the reason why exit code 0 is not a success.
    "failure": "str",
}, total=False)


class RunStatus_3(_RunStatus_3, _RunStatus_3_optional):
    pass


_RunStatus_4 = TypedDict("_RunStatus_4", {
    "attempt": "float",
    "state": "Literal[\"vanished\"]",
    "detail": "str",
})
_RunStatus_4_optional = TypedDict("_RunStatus_4_optional", {
    "resumedFrom": "ResumedFrom",
}, total=False)


class RunStatus_4(_RunStatus_4, _RunStatus_4_optional):
    pass


# `resumedFrom`: as the attempt's. Absent if the attempt does not resume, or has not chosen a checkpoint yet.
RunStatus = Union['RunStatus_1', 'RunStatus_2', 'RunStatus_3', 'RunStatus_4']

# Name of a secret in the secret store, as `secretNamePattern` allows.
SecretName = str

SecretRef_1 = TypedDict("SecretRef_1", {
    "kind": "Literal[\"named\"]",
    "secret": "SecretName",
})

_SecretRef_2 = TypedDict("_SecretRef_2", {
    "kind": "Literal[\"job\"]",
    "secret": "SecretName",
})
_SecretRef_2_optional = TypedDict("_SecretRef_2_optional", {
    "variable": "str",
}, total=False)


class SecretRef_2(_SecretRef_2, _SecretRef_2_optional):
    pass


SecretRef_3 = TypedDict("SecretRef_3", {
    "kind": "Literal[\"setting\"]",
    "setting": "SecretSetting",
})

SecretRef_4 = TypedDict("SecretRef_4", {
    "kind": "Literal[\"localFile\"]",
    "path": "str",
})

# A reference to the value of a secret, which is in the secret store and never in a spec. `named`: a secret of the job's owner. `job`: a secret of the job itself, whose value `create` has stored. `setting`: the file that a setting of the installation names. `localFile`: a file of the controller's machine; only in a spec that was stored as version 1, or imported.
SecretRef = Union['SecretRef_1', 'SecretRef_2', 'SecretRef_3', 'SecretRef_4']

SecretSetting = Literal["lab.privateKey", "lab.wandbKeyFile"]

# A named secret of the actor. Its value is never shown.
SecretView = TypedDict("SecretView", {
    "name": "SecretName",
    # The size of the stored value in bytes, including a newline at its end, which a variable does not get.
    "size": "float",
    # Time at which its value was stored.
    "changedAt": "Instant",
    # The ids of the unfinished jobs that need it.
    "usedBy": "List[str]",
})

# The booking on which the user has decided; null: none.
SeenBooking = TypedDict("SeenBooking", {
    "status": "BookingStatus",
    # The sheet name of the user; empty if free.
    "user": "str",
    "note": "str",
    # The note of `tpu run`, or the cloud's state.
    "scriptNote": "str",
})

ServerSite = TypedDict("ServerSite", {
    "zones": "List[str]",
    "condaEnvironment": "Union[str, None]",
    "python": "Union[str, None]",
    "wandbKeyFile": "Union[str, None]",
    "remoteUser": "Union[str, None]",
    "privateKey": "Union[str, None]",
    "namePrefix": "str",
    "stageLimit": "float",
    "hangGraceMs": "Duration",
    # NFS shares that every TPU of a zone mounts, in order.
    "shares": "List[NfsShare]",
    # The spreadsheet with the bookings; null: the table of the database.
    "spreadsheet": "Union[Spreadsheet, None]",
    # The Google Cloud project of its TPUs; null if the settings name none.
    "project": "Union[str, None]",
    # The name of the booking sheet in messages.
    "sheetName": "str",
})

# An effective setting.
SettingRow = TypedDict("SettingRow", {
    # Such as `tpu.project`.
    "key": "str",
    # `(set)` instead of a secret.
    "value": "Any",
    # A variable, the name of a file, or `default`.
    "source": "str",
})

_SetupStep = TypedDict("_SetupStep", {
    "name": "str",
    "key": "str",
    "check": "Union[str, None]",
    "apply": "str",
    # Files that the worker needs first.
    "files": "List[StepFile]",
    # Longest time for one `apply`.
    "timeoutMs": "Duration",
})
_SetupStep_optional = TypedDict("_SetupStep_optional", {
    # Number of the working directory copy that the worker needs first. Absent: none.
    "workdirCopy": "float",
}, total=False)


# One idempotent piece of setup on one worker. `check` exits 0 if the step already holds; `apply` makes it hold. Both are shell scripts that travel as files. `key` changes whenever the step changes in a way that matters. A proof file of that name on the worker proves that the step holds there.
class SetupStep(_SetupStep, _SetupStep_optional):
    pass


SheetContents = TypedDict("SheetContents", {
    "bookings": "List[Booking]",
    # A sentence for each unreadable row.
    "problems": "List[str]",
    "late": "List[LateChange]",
})

SheetState = TypedDict("SheetState", {
    # A sentence for each unreadable row.
    "problems": "List[str]",
    "late": "List[LateChange]",
    # The name in messages: `the booking table`.
    "name": "str",
    # The time at which it had these bookings. Null: it does not answer, and there is no copy.
    "readAt": "Union[Instant, None]",
    # The reason why it does not answer, without a full stop. Null: the bookings are those of now.
    "failure": "Union[str, None]",
})

# One slice of an allocation: charged while `ready`. `preempted`: the cloud has taken it.
SliceState = Literal["ready", "preempted", "other"]

_Slot = TypedDict("_Slot", {
    "slot": "float",
})
_Slot_optional = TypedDict("_Slot_optional", {
    # Absent: the host declares no GPUs.
    "gpus": "List[float]",
}, total=False)


# One of the slots of a host, numbered from 0, and the numbers of the GPUs that belong to it.
class Slot(_Slot, _Slot_optional):
    pass


# An error as plain JSON.
SourceFailure = TypedDict("SourceFailure", {
    "message": "str",
    # The exit code.
    "code": "float",
    "lines": "List[str]",
    # True if the other sources have jobs to show.
    "isPartial": "bool",
})

_Spending = TypedDict("_Spending", {
    # By the job since its owner's newest start, or by its owner since the beginning of the period.
    "spentUsd": "float",
    "budgetUsd": "float",
})
_Spending_optional = TypedDict("_Spending_optional", {
    # Absent: `job.budget`.
    "ownerBudget": "OwnerBudget",
}, total=False)


# US dollars that count against a budget, and the budget.
class Spending(_Spending, _Spending_optional):
    pass


Spreadsheet = TypedDict("Spreadsheet", {
    "id": "str",
    # Null: the first tab.
    "tab": "Union[str, None]",
    # Absolute path of a local file with a service account key in Google's JSON format.
    "credentials": "str",
    # Replaces Google's address in tests.
    "endpoint": "Union[str, None]",
})

StepFile_1 = TypedDict("StepFile_1", {
    "kind": "Literal[\"secret\"]",
    "secret": "SecretRef",
    "to": "str",
    "mode": "float",
})

StepFile_2 = TypedDict("StepFile_2", {
    "kind": "Literal[\"blob\"]",
    "blob": "Digest",
    "to": "str",
    "mode": "float",
})

StepFile_3 = TypedDict("StepFile_3", {
    "kind": "Literal[\"inline\"]",
    "base64": "str",
    "to": "str",
    "mode": "float",
})

StepFile = Union['StepFile_1', 'StepFile_2', 'StepFile_3']

StepProgress_1 = TypedDict("StepProgress_1", {
    "kind": "Literal[\"begun\"]",
    "job": "str",
    "workers": "List[float]",
})

StepProgress_2 = TypedDict("StepProgress_2", {
    "kind": "Literal[\"output\"]",
    "worker": "float",
    "bytes": "Uint8Array",
})

StepProgress_3 = TypedDict("StepProgress_3", {
    "kind": "Literal[\"ended\"]",
    "worker": "float",
    "message": "Union[str, None]",
    # Null if the step did not end or its exit code is unknown.
    "exitCode": "Union[float, None]",
})

# `begun` comes first. `message`: the failure; null if the step is applied.
StepProgress = Union['StepProgress_1', 'StepProgress_2', 'StepProgress_3']

StepRunOptions = TypedDict("StepRunOptions", {
    # The owner for whom the actor gives the command, which is recorded as the actor's.
    "onBehalfOf": "UserName",
    # Applies the step even if its check succeeds.
    "force": "bool",
}, total=False)

StopSpec = TypedDict("StopSpec", {
    # The signal that asks the program to end, as Slurm and Docker name it: `TERM`, `INT`, `USR1`.
    "signal": "str",
    # Time until the program is killed with all its children.
    "graceMs": "Duration",
})

StorageProblem = TypedDict("StorageProblem", {
    "project": "str",
    # Null for the whole project.
    "bucket": "Union[str, None]",
    # Without a full stop.
    "message": "str",
    "hints": "List[str]",
    # `note`: no error. `partial`: its buckets are shown, but without a part of their data.
    "severity": "Literal[\"note\", \"partial\", \"unread\"]",
    "isUnreachable": "bool",
})

# The result so far.
StorageReport = TypedDict("StorageReport", {
    "counted": "CountProgress",
    "rows": "List[BucketRow]",
    "total": "StorageTotal",
    "problems": "List[StorageProblem]",
    "projects": "List[str]",
    # False if no project could be read.
    "anyAnswered": "bool",
    # The flag that a mistyped project of the query probably means.
    "suggestion": "Union[str, None]",
})

StorageTotal = TypedDict("StorageTotal", {
    # The number of buckets.
    "buckets": "float",
    # The number of buckets without a size.
    "unmeasured": "float",
    # The sum over the measured buckets.
    "bytes": "float",
    # The sum over the measured buckets.
    "objects": "float",
    # Over the buckets whose growth is known; null if it is known for none.
    "growth7dBytes": "Union[float, None]",
    # Over the buckets whose growth is known; null if it is known for none.
    "growth30dBytes": "Union[float, None]",
    # True if the count of a bucket ended early.
    "partial": "bool",
})

TestAnswer = TypedDict("TestAnswer", {
    "isSent": "bool",
    # The answer of the server or program, or the failure.
    "message": "str",
})

_TicketOptions_use = TypedDict("_TicketOptions_use", {
    "worker": "float",
})
_TicketOptions_use_optional = TypedDict("_TicketOptions_use_optional", {
    "port": "float",
}, total=False)


# The worker that the client uses now, and the port of a connection. The audit log records both.
class TicketOptions_use(_TicketOptions_use, _TicketOptions_use_optional):
    pass


TicketOptions = TypedDict("TicketOptions", {
    # The owner for whom the actor gives the command, which is recorded as the actor's.
    "onBehalfOf": "UserName",
    # Includes the login to each worker, which may need a request to the cloud.
    "logins": "bool",
    # The worker that the client uses now, and the port of a connection. The audit log records both.
    "use": "TicketOptions_use",
}, total=False)

TokenRequest = TypedDict("TokenRequest", {
    # Default: its id.
    "name": "str",
    # Default: the highest allowed role.
    "role": "Role",
    # Default: 90 days.
    "validForMs": "Duration",
    # Default: the actor's user.
    "user": "UserName",
}, total=False)

# A token without its value.
TokenView = TypedDict("TokenView", {
    # Begins with `tok_`.
    "id": "str",
    # Unique among the user's valid tokens.
    "name": "str",
    "user": "UserName",
    # A call has the lower of this role and the user's role.
    "role": "Role",
    "createdAt": "Instant",
    # The user who created it.
    "createdBy": "UserName",
    # The token is not valid from then on.
    "expiresAt": "Instant",
    # At most a minute old while the token is in use; null before the first use.
    "lastUsedAt": "Union[Instant, None]",
    # The token is not valid from then on; null for a token that is not revoked.
    "revokedAt": "Union[Instant, None]",
})

_TpuAlternative = TypedDict("_TpuAlternative", {
    "zone": "str",
    "accelerator": "str",
    "pricing": "Pricing",
    # Each TPU generation needs its own.
    "runtimeVersion": "str",
    "pricePerHourUsd": "Union[float, None]",
})
_TpuAlternative_optional = TypedDict("_TpuAlternative_optional", {
    "topology": "str",
    # As in `TpuSpec`.
    "pricesOf": "str",
}, total=False)


# The fields of a TpuSpec that differ between alternatives.
class TpuAlternative(_TpuAlternative, _TpuAlternative_optional):
    pass


TpuChange_1 = TypedDict("TpuChange_1", {
    "kind": "Literal[\"register\"]",
    "facts": "TpuFacts",
})

TpuChange_2 = TypedDict("TpuChange_2", {
    "kind": "Literal[\"observe_zone\"]",
    "zone": "str",
})

TpuChange_3 = TypedDict("TpuChange_3", {
    "kind": "Literal[\"set_pricing\"]",
    "pricing": "Literal[\"ondemand\", \"preemptible\", \"spot\"]",
})

TpuChange_4 = TypedDict("TpuChange_4", {
    "kind": "Literal[\"add\"]",
    "tpu": "LabTpu",
})

TpuChange = Union['TpuChange_1', 'TpuChange_2', 'TpuChange_3', 'TpuChange_4']

TpuFacts = TypedDict("TpuFacts", {
    # Null: the `tpu.project` of the settings.
    "project": "Union[str, None]",
    # Null until a user or an observation provides it.
    "zone": "Union[str, None]",
    # `v2-32`, `v5litepod-16`.
    "accelerator": "str",
    "pricing": "Literal[\"ondemand\", \"preemptible\", \"spot\"]",
    # Null: the accelerator's default.
    "runtimeVersion": "Union[str, None]",
}, total=False)

TpuList = TypedDict("TpuList", {
    "rows": "List[TpuRow]",
    "unchecked": "List[UncheckedLocation]",
    "anyAnswered": "bool",
    # Projects that are queried only for finished jobs; `jobman tpus --forget` accepts each.
    "forgettable": "List[str]",
    "projects": "List[str]",
    # The flag that a mistyped project or zone of the query probably means.
    "suggestion": "Union[str, None]",
})

_TpuOperation_1 = TypedDict("_TpuOperation_1", {
    "kind": "Literal[\"create\", \"prepare\"]",
})
_TpuOperation_1_optional = TypedDict("_TpuOperation_1_optional", {
    # The job then runs its command, so it uses the TPU alone. Absent: it has no command.
    "withCommand": "Literal[True]",
    # The lab's bookings are in a spreadsheet. Absent: in the table of the database.
    "spreadsheet": "Literal[True]",
}, total=False)


class TpuOperation_1(_TpuOperation_1, _TpuOperation_1_optional):
    pass


_TpuOperation_2 = TypedDict("_TpuOperation_2", {
    "kind": "Literal[\"recreate\", \"restart\", \"delete\"]",
    # The creation time of that TPU, so that no later one of its name is released. Null for one without a node.
    "creationTime": "Union[str, None]",
})
_TpuOperation_2_optional = TypedDict("_TpuOperation_2_optional", {
    # The job then runs its command, so it uses the TPU alone. Absent: it has no command.
    "withCommand": "Literal[True]",
    # The lab's bookings are in a spreadsheet. Absent: in the table of the database.
    "spreadsheet": "Literal[True]",
}, total=False)


class TpuOperation_2(_TpuOperation_2, _TpuOperation_2_optional):
    pass


# `create` requests the TPU if it does not exist; `prepare` needs an existing one. Both then run the setup steps. The others begin by releasing the TPU that exists: `recreate` deletes it and requests it again, `restart` stops its machines and starts them again, `delete` deletes it.
TpuOperation = Union['TpuOperation_1', 'TpuOperation_2']

TpuOwner_1 = TypedDict("TpuOwner_1", {
    "kind": "Literal[\"job\"]",
    "id": "str",
    "name": "str",
    "jobOwner": "str",
    "owner": "str",
    "isFinished": "bool",
})

TpuOwner_2 = TypedDict("TpuOwner_2", {
    "kind": "Literal[\"orphan\"]",
    "id": "str",
})

TpuOwner_3 = TypedDict("TpuOwner_3", {
    "kind": "Literal[\"installation\"]",
    "installation": "str",
    "id": "Union[str, None]",
})

TpuOwner_4 = TypedDict("TpuOwner_4", {
    "kind": "Literal[\"shared\"]",
    "name": "Union[str, None]",
})

TpuOwner_5 = TypedDict("TpuOwner_5", {
    "kind": "Literal[\"user\"]",
    "name": "str",
})

TpuOwner_6 = TypedDict("TpuOwner_6", {
    "kind": "Literal[\"none\"]",
})

# `orphan`: of this installation, without a job that claims it. `installation`: of another installation.
TpuOwner = Union['TpuOwner_1', 'TpuOwner_2', 'TpuOwner_3', 'TpuOwner_4', 'TpuOwner_5', 'TpuOwner_6']

TpuRow_label_1 = TypedDict("TpuRow_label_1", {
    "installation": "str",
    "job": "str",
    "allocation": "float",
})

TpuRow = TypedDict("TpuRow", {
    "project": "str",
    "zone": "str",
    "name": "str",
    # The full resource name, as a release needs it.
    "resource": "str",
    # Google's state of the node; null without a node.
    "nodeState": "Union[str, None]",
    "queuedResourceState": "Union[str, None]",
    # Null if the cloud does not report it.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, Literal[\"reserved\"]]",
    # 1 for a node; for a queued resource without nodes, the number that it requests.
    "nodeCount": "float",
    "label": "Union[TpuRow_label_1, None]",
    # The installation that made it as a shared TPU (`tpu apply`); null for every other TPU.
    "sharedByInstallation": "Union[str, None]",
    # People write this metadata entry for each other.
    "metadataOwner": "Union[str, None]",
    "createdAt": "Union[Instant, None]",
    # Google's state of the node, or of the queued resource if there is no node.
    "state": "str",
    "owner": "TpuOwner",
    "job": "Union[str, None]",
    # Time at which it became ready, or was created if no job waited for it. Null while it is not ready.
    "readyAt": "Union[Instant, None]",
    # Time for which it has been ready without a command of jobman. Null while it is in use, not ready or of another owner, and for a shared TPU before its first job.
    "idleMs": "Union[Duration, None]",
    "pricePerHourUsd": "Union[float, None]",
    "idleCostUsd": "Union[float, None]",
    "simulated": "bool",
})

_TpuSpec = TypedDict("_TpuSpec", {
    "kind": "Literal[\"tpu\"]",
    # Ephemeral: requested by the job and released with it. Persistent: exists by name before and after it.
    "ownership": "Literal[\"ephemeral\", \"persistent\"]",
    # `tpu-vm` creates the node itself, `queued-resources` requests it through Google's queue.
    "mode": "Literal[\"tpu-vm\", \"queued-resources\"]",
    # A Google Cloud project, or `emulatorProject`.
    "project": "str",
    "zone": "str",
    "accelerator": "str",
    # `tpu.name`, interpolated. `nodeName` (allocate.ts) makes the name in the cloud from it.
    "name": "str",
    "runtimeVersion": "str",
    "pricing": "Pricing",
    # Text of the script that runs on every boot of every worker, or null.
    "startupScript": "Union[str, None]",
    # Network tags, which are also labels of the job.
    "networkTags": "List[str]",
    "metadata": "Dict[str, str]",
    # Login on the workers. Null: the user that jobman runs as.
    "remoteUser": "Union[str, None]",
    # Private key for that login. Null: jobman's own key.
    "privateKey": "Union[SecretRef, None]",
    # US dollars per hour while it is ready, estimated at creation. Null if no price is known.
    "pricePerHourUsd": "Union[float, None]",
})
_TpuSpec_optional = TypedDict("_TpuSpec_optional", {
    # Its public half, for the machines that the job creates. Absent: not known.
    "publicKey": "str",
    # Date of the table of that price (`2026-08-01`), or `settings`. Absent: without a price, and in older records.
    "pricesOf": "str",
    # In the owner's order. `capacityOf` (job.ts) gives the zone, type and price of an allocation.
    "alternatives": "List[TpuAlternative]",
    # Time that a request may wait in one alternative before the next is requested. Absent: no limit.
    "alternativesWaitMs": "Duration",
    # Id of a reservation in the same project and zone. The capacity comes from it.
    "reservation": "str",
    # Compute Engine names in the project. Absent: Google chooses, for the network `default`.
    "network": "str",
    "subnetwork": "str",
    # E-mail of the service account of the machines. Absent: the project's default one.
    "serviceAccount": "str",
    "dataDisks": "List[DataDisk]",
    # Arrangement of the chips (`2x2x4`), if the type has several. Applies to the spec's own alternative only.
    "topology": "str",
    # Slices of one queued resource. Absent: one. More than one is a multislice: all slices or none.
    "nodeCount": "float",
    # Time that the queued resource stays in the queue before the cloud deletes it. Absent: no limit.
    "validForMs": "Duration",
    # Its work on its persistent TPU. Absent: the job uses the TPU as it is.
    "operation": "TpuOperation",
}, total=False)


class TpuSpec(_TpuSpec, _TpuSpec_optional):
    pass


TpuState_2 = TypedDict("TpuState_2", {
    "kind": "Literal[\"unknown\"]",
    "message": "str",
})

# `state` is Google's state in lower case, or `absent`. `unknown`: the cloud did not answer.
TpuState = Union['KnownTpuState', 'TpuState_2']

# The wait for capacity of similar jobs of this installation in the last 30 days.
TypicalWaitView = TypedDict("TypicalWaitView", {
    # Half of the waits were not longer.
    "medianMs": "Duration",
    # 9 of 10 waits were not longer.
    "percentile90Ms": "Duration",
    # The number of waits; 5 at least.
    "samples": "float",
})

Uint8Array = str

_UncheckedLocation = TypedDict("_UncheckedLocation", {
    "project": "str",
    "zone": "Union[str, None]",
    "message": "str",
    # The TPU emulator does not run: nothing costs money and nothing needs repair.
    "isEmulatorStopped": "bool",
})
_UncheckedLocation_optional = TypedDict("_UncheckedLocation_optional", {
    # A command that may repair it.
    "fix": "str",
}, total=False)


# A location that could not be queried; `zone` is null for the whole project.
class UncheckedLocation(_UncheckedLocation, _UncheckedLocation_optional):
    pass


_Unknown = TypedDict("_Unknown", {
    "kind": "Literal[\"unknown\"]",
    "reason": "str",
    "since": "Instant",
})
_Unknown_optional = TypedDict("_Unknown_optional", {
    # No cloud was asked, or it rejected the credentials: this machine has no valid login.
    "noLogin": "Literal[True]",
    # The permanent error with which the cloud refuses to answer. It will not answer anything else.
    "refused": "CloudErrorKind",
    # The program runs in another home, on this machine or on another one, and only a controller of that home can observe it. This ends nothing, however long it lasts.
    "elsewhere": "Literal[\"home\", \"machine\"]",
}, total=False)


# A failed check. `since` is the time from which the checks have failed, as far as the observer knows.
class Unknown(_Unknown, _Unknown_optional):
    pass


UnreadLimits = TypedDict("UnreadLimits", {
    "project": "str",
    "message": "str",
    # `cloudquotas.quotas.get`; null if another reason is known.
    "permission": "Union[str, None]",
    # A command that may repair it.
    "fix": "Union[str, None]",
})

# A copy whose blobs are stored.
UploadedWorkdir = TypedDict("UploadedWorkdir", {
    "tree": "Digest",
    # The uncommitted changes; null without any.
    "changes": "Union[Digest, None]",
    "about": "FrozenWorkdir",
})

# Usage that is not a TPU at Google.
UsageKind = Literal["simulated", "hosts", "kubernetes"]

# The stretches of one allocation at one location do not overlap. There are gaps between the uses of persistent capacity, and between two waits of a job that was stopped meanwhile. A TPU that appeared in an alternative after the job had left it has rows of its own, with the values of that alternative.
UsageRow = TypedDict("UsageRow", {
    # Id of the job; for a job in a cluster its name there.
    "job": "str",
    # Of a job in a cluster, where a later job may have the same name; otherwise null.
    "uid": "Union[str, None]",
    "source": "Literal[\"tpu\", \"hosts\", \"kubernetes\"]",
    # From 1. In a cluster the number of the pod, in the order of their creation.
    "allocation": "float",
    # Its name in the cloud; in a cluster the name of the pod.
    "name": "str",
    "owner": "Union[str, None]",
    "jobName": "str",
    "tags": "List[str]",
    # The Google Cloud project; the context of the cluster. Null on this machine.
    "project": "Union[str, None]",
    # The zone; in a cluster `context/namespace`. Null on this machine.
    "location": "Union[str, None]",
    # The accelerator type; in a cluster the flavor. Null without one.
    "accelerator": "Union[str, None]",
    "pricing": "Union[Pricing, None]",
    # TPU chips or GPUs of the whole allocation. Null if their number is unknown.
    "chips": "Union[float, None]",
    "ownership": "Literal[\"ephemeral\", \"persistent\"]",
    "use": "Use",
    # The attempt, with `setup`, `useful` and `lost`.
    "attempt": "Union[float, None]",
    "from": "Instant",
    # Null: it continues.
    "until": "Union[Instant, None]",
    # US dollars for the whole allocation. 0 while nothing is charged, null if no price is known.
    "pricePerHourUsd": "Union[float, None]",
    # Date of the price table (`2026-08-01`), or `settings`. Null without a price, and while nothing is charged.
    "pricesOf": "Union[str, None]",
    # True on the TPU emulator: the prices are Google's, and it is free.
    "simulated": "bool",
})

# - waiting: requested and not ready, or under repair; not charged - setup: ready, and the command of the attempt does not run yet - useful: the command runs, and its work is kept, as far as jobman knows (`workKeptUntil`) - lost: the command ran, and its work was lost - idle: ready, but no attempt uses it: backoff, ending, releasing, superseded, orphan - kept: ready after the job has finished
Use = Literal["waiting", "setup", "useful", "lost", "idle", "kept"]

UsedTpu = TypedDict("UsedTpu", {
    "tpu": "str",
    # The name that people use: its first alias, or a short form of the full name.
    "alias": "str",
    "aliases": "List[str]",
    # The accelerator type; null if neither the registry nor the name has it.
    "accelerator": "Union[str, None]",
    "zone": "str",
    # Null: the sheet has no row for it, or is not known.
    "booking": "Union[Booking, None]",
    # The unfinished jobs on it that the actor may see.
    "jobs": "List[UsingJob]",
    # When the command of a job last ended there; null if none did in the last 30 days.
    "lastUsedAt": "Union[Instant, None]",
    # The use by the first of these jobs, as a sentence without its full stop; null without jobs.
    "use": "Union[str, None]",
})

UserChange_1_values = TypedDict("UserChange_1_values", {
    # The tmux session of the user's windows; unique.
    "session": "str",
    # Login names on this machine that belong to this user; empty for users of a shared login.
    "logins": "List[str]",
    # From 1. The next window gets this number unless it is taken.
    "nextWindow": "float",
}, total=False)

UserChange_1 = TypedDict("UserChange_1", {
    "kind": "Literal[\"set\"]",
    "values": "UserChange_1_values",
})

UserChange_2 = TypedDict("UserChange_2", {
    "kind": "Literal[\"set_directory\"]",
    "number": "float",
    "folder": "str",
})

UserChange_3 = TypedDict("UserChange_3", {
    "kind": "Literal[\"remove_directory\"]",
    "number": "float",
})

UserChange_4 = TypedDict("UserChange_4", {
    "kind": "Literal[\"swap_directories\"]",
    "one": "float",
    "other": "float",
})

UserChange_5 = TypedDict("UserChange_5", {
    "kind": "Literal[\"set_setting\"]",
    "key": "str",
    "text": "str",
})

UserChange_6 = TypedDict("UserChange_6", {
    "kind": "Literal[\"reset_setting\"]",
    "key": "Union[str, None]",
})

UserChange_7 = TypedDict("UserChange_7", {
    "kind": "Literal[\"set_config_alias\"]",
    "alias": "str",
    "key": "str",
})

UserChange_8 = TypedDict("UserChange_8", {
    "kind": "Literal[\"remove_config_alias\"]",
    "alias": "str",
})

UserChange_9 = TypedDict("UserChange_9", {
    "kind": "Literal[\"see_news\"]",
    "upTo": "float",
})

UserChange_10_from = TypedDict("UserChange_10_from", {
    # Absolute folders by number, 1 to 100. `run` uses 1 by default.
    "directories": "Dict[str, str]",
    # Short names for config keys: `lr` for `config.training.learning_rate`.
    "aliases": "Dict[str, str]",
    # From 1. The next window gets this number unless it is taken.
    "nextWindow": "float",
})

UserChange_10 = TypedDict("UserChange_10", {
    "kind": "Literal[\"fill\"]",
    "from": "UserChange_10_from",
})

UserChange = Union['UserChange_1', 'UserChange_2', 'UserChange_3', 'UserChange_4', 'UserChange_5', 'UserChange_6', 'UserChange_7', 'UserChange_8', 'UserChange_9', 'UserChange_10']

# Limits over all jobs of one user. Null: no limit.
UserLimits = TypedDict("UserLimits", {
    # Chips that the TPUs of the jobs may have at once. Persistent TPUs do not count.
    "chips": "Union[float, None]",
    # Unfinished jobs.
    "jobs": "Union[float, None]",
    # Estimated US dollars for TPUs in each day of UTC.
    "usdPerDay": "Union[float, None]",
    # Projects of Google Cloud.
    "projects": "Union[List[str], None]",
    # Contexts of the kubeconfig, and namespaces of them as `context/namespace`.
    "clusters": "Union[List[str], None]",
    # Hosts of the settings; `localhost` is the machine of the controller. Null: all hosts, but through a server not `localhost`.
    "hosts": "Union[List[str], None]",
    # Tokens that count at once.
    "tokens": "Union[float, None]",
    # MiB of files that the user has sent to a server and that it stores.
    "filesMib": "Union[float, None]",
})

# The name of a registered user, or the login of an unregistered one.
UserName = str

UserSettings = TypedDict("UserSettings", {
    "monitor_after_run": "bool",
    "monitor_upd_time": "float",
    "monitor_length": "float",
    "monitor_dir": "bool",
    "monitor_tpu": "bool",
    "monitor_verbose": "bool",
    "show_length": "float",
    "time_zone": "str",
    "monitor_columns": "str",
    # Settings of the older program that have no meaning here.
    "extra_settings": "Dict[str, Any]",
})

# A registered user.
UserView = TypedDict("UserView", {
    "name": "UserName",
    # Each role has all permissions of the lower ones.
    "role": "Role",
    # Logins of machines that belong to this user alone.
    "logins": "List[str]",
    # The account at the identity provider: an e-mail address, or the value of server.oidc.user_claim; null without one.
    "account": "Union[str, None]",
    # Time of the first login with that account, which bound it to a person; null before.
    "accountBoundAt": "Union[Instant, None]",
    "createdAt": "Instant",
    # Null for a user who is not disabled.
    "disabledAt": "Union[Instant, None]",
    # Set by an admin.
    "limits": "UserLimits",
})

UsingJob = TypedDict("UsingJob", {
    "job": "str",
    "name": "str",
    "user": "UserName",
    # The user's name in the sheet.
    "sheetName": "str",
    # Null for a job of a manifest, and before it has a window.
    "window": "Union[float, None]",
    "phase": "Phase",
    "phaseStartedAt": "Instant",
})

# docs/commands.md describes the commands, except two that only `tpu` sends. `disable-recovery`: the open attempt continues, but no rule answers its end. `accept-exit` (`tpu ack`): an exit that waits for the cloud's report (`Attempt.exitSeen`) is judged without that wait.
Verb = Literal["start", "stop", "resume", "rerun", "cancel", "delete", "disable-recovery", "accept-exit"]

# `slot`: of a host. `tpu`: another job uses it. `job`: the end of a job that this one replaces. `host`: the settings do not name it. `backoff`: a pause after a failure, until `untilAt`. `release`: the deletion of the old TPU. `creation`: of the TPU. `answer`: of the cloud. `controller`: no controller has checked the job yet.
WaitKind = Literal["slot", "tpu", "job", "host", "backoff", "quota", "capacity", "release", "creation", "answer", "controller"]

Why_situation_1 = TypedDict("Why_situation_1", {
    "name": "str",
    # Null for a name from another version of jobman.
    "description": "Union[str, None]",
})

# The explanation of a job's phase. All texts are for people.
Why = TypedDict("Why", {
    "id": "str",
    "backend": "Union[BackendName, Literal[\"kubernetes\"]]",
    "phase": "Phase",
    "message": "str",
    # The fact behind the message, with its time.
    "evidence": "Union[str, None]",
    # The last lines of the failed program's log; empty if no program failed.
    "logTail": "List[str]",
    # The recovery rule in force.
    "rule": "Union[str, None]",
    # The typical wait for such capacity while the job waits, from jobs of this installation; null with fewer than five waits.
    "typicalWait": "Union[str, None]",
    # Null in a cluster, whose own controllers decide.
    "next": "Union[str, None]",
    "nextAt": "Union[Instant, None]",
    # Time of the controller's next check, if the job waits for a check; null otherwise.
    "nextCheckAt": "Union[Instant, None]",
    # The row of the situation table that decided the newest pass; null before the first pass.
    "situation": "Union[Why_situation_1, None]",
})

# Without `cleared`: windows on the list. `of listed jobs` adds the cleared windows of their jobs.
WindowQuery = TypedDict("WindowQuery", {
    "user": "str",
    "jobs": "List[str]",
    "cleared": "Literal[True, \"of listed jobs\"]",
}, total=False)

# The arguments of `tpu upd-log SESSION:WINDOW`.
WindowReport = TypedDict("WindowReport", {
    # Absolute. Contains `output.log`.
    "logFolder": "str",
    # The frozen copy of the code that the attempt runs; absolute.
    "stageFolder": "str",
    "tpu": "str",
    # As the script wrote it: `20250420_011026`.
    "startTime": "str",
    "at": "Instant",
})

WindowWithJob = TypedDict("WindowWithJob", {
    "window": "LabWindow",
    "job": "LabJob",
})

WorkdirCopyView_git_1 = TypedDict("WorkdirCopyView_git_1", {
    # Null before the first commit.
    "commit": "Union[str, None]",
    "branch": "Union[str, None]",
    # True if tracked files differ from the commit; the differences are in `changes.diff`.
    "changed": "bool",
})

# An immutable copy of a working directory.
WorkdirCopyView = TypedDict("WorkdirCopyView", {
    "from": "str",
    "copiedAt": "Instant",
    "files": "float",
    "bytes": "float",
    # Null outside a git repository.
    "git": "Union[WorkdirCopyView_git_1, None]",
    # From 1.
    "copy": "float",
    # The folder of the copy, with `about.json`, and with `changes.diff` if git reports changes.
    "folder": "HostPath",
})

WorkdirFiles_value = TypedDict("WorkdirFiles_value", {
    "size": "float",
    "digest": "Digest",
})

# By path below the working directory. A link is described by its target.
WorkdirFiles = Dict[str, 'WorkdirFiles_value']

# A working directory. Its copies are immutable and numbered from 1 (`workdirCopyOf` in job.ts).
WorkdirSpec = TypedDict("WorkdirSpec", {
    # The blob with the list of the files of the first copy. Null if they are in the job's folder, as in version 1.
    "tree": "Union[Digest, None]",
})

# A worker of the newest attempt.
WorkerActivity = TypedDict("WorkerActivity", {
    "worker": "WorkerId",
    "address": "Union[str, None]",
    # Its state, for people.
    "message": "str",
    # Time of the newest output; null without any.
    "logAt": "Union[Instant, None]",
    "lastLine": "Union[str, None]",
})

WorkerAnswer_1 = TypedDict("WorkerAnswer_1", {
    "kind": "Literal[\"ended\"]",
    "worker": "float",
    "code": "float",
    "output": "str",
})

WorkerAnswer_2 = TypedDict("WorkerAnswer_2", {
    "kind": "Literal[\"no_answer\"]",
    "worker": "float",
    "message": "str",
})

WorkerAnswer = Union['WorkerAnswer_1', 'WorkerAnswer_2']

WorkerFigures = TypedDict("WorkerFigures", {
    "cpuPercent": "Union[float, None]",
    "memoryUsedBytes": "Union[float, None]",
    "memoryTotalBytes": "Union[float, None]",
    # Used bytes of the file system of `/`; null if not known.
    "diskUsedBytes": "Union[float, None]",
    "diskTotalBytes": "Union[float, None]",
    # Bytes received over the network in a second, on all interfaces except loopback; null if not known.
    "receivedBytesPerSecond": "Union[float, None]",
    "sentBytesPerSecond": "Union[float, None]",
    # Share of the time in which the chips computed, as libtpu reports it; the mean of the chips of the worker.
    "dutyPercent": "Union[float, None]",
    # CPU of the processes in the session of the program; null while it does not run, and for a pod.
    "programCpuPercent": "Union[float, None]",
    "programMemoryBytes": "Union[float, None]",
    # `running`: the program is alive. `exited`: it has ended. `absent`: it has not started, or vanished.
    "program": "Literal[\"running\", \"exited\", \"absent\"]",
})

# A worker by Google's number, from 0; or `controller`: the machine that jobman runs on.
WorkerId = Union[float, Literal["controller"]]

_WorkerLogin = TypedDict("_WorkerLogin", {
    "worker": "float",
    "host": "str",
    # Null: as the terminal's ssh_config says.
    "port": "Union[float, None]",
    "user": "Union[str, None]",
    # The private key, which the terminal must have: null for the key of jobman, or the user's own keys of a host.
    "privateKey": "Union[LoginKey, None]",
    # The name under which the terminal pins the host key. A recreated worker has another.
    "pinName": "str",
    # The worker must show one of these keys (`type base64`). If empty, the first key is pinned.
    "hostKeys": "List[str]",
    # True if the terminal's ssh_config applies: a jump host, a tunnel.
    "usesUserConfig": "bool",
    # For a machine that jobman did not create: the command that adds the user's own key to it.
    "addKey": "Union[str, None]",
})
_WorkerLogin_optional = TypedDict("_WorkerLogin_optional", {
    # The user's own machine: the terminal's known_hosts must have its key, and nothing is pinned.
    "verifiesKnownHosts": "Literal[True]",
}, total=False)


# The login to one worker over SSH, without secrets.
class WorkerLogin(_WorkerLogin, _WorkerLogin_optional):
    pass


_WorkerScript = TypedDict("_WorkerScript", {
    # For /bin/sh.
    "script": "str",
    # 15 minutes at most.
    "timeoutMs": "Duration",
})
_WorkerScript_optional = TypedDict("_WorkerScript_optional", {
    # By environment variable. They appear in no command line and no file that stays.
    "secrets": "Dict[str, str]",
    # All without it.
    "workers": "List[float]",
}, total=False)


class WorkerScript(_WorkerScript, _WorkerScript_optional):
    pass


_WorkerStatus_matched = TypedDict("_WorkerStatus_matched", {
    "attempt": "float",
    "line": "str",
})
_WorkerStatus_matched_optional = TypedDict("_WorkerStatus_matched_optional", {
    "pattern": "str",
}, total=False)


# The first known pattern at the end of the newest attempt's output, with its line; without one, the exception with which a Python program ended. The worker searches once the run has exited or vanished. While it runs, the worker searches for patterns after `LimitsSpec.failedCallTimeoutMs` of silence, and only after the last line of progress.
class WorkerStatus_matched(_WorkerStatus_matched, _WorkerStatus_matched_optional):
    pass


_WorkerStatus = TypedDict("_WorkerStatus", {
    # Changes at each boot of the machine. A pid means nothing after a boot.
    "bootId": "str",
    # Keys of setup steps that are proven on this worker.
    "proofs": "List[str]",
    # In order, each attempt of this job that has a run folder on this worker.
    "runs": "List[RunStatus]",
})
_WorkerStatus_optional = TypedDict("_WorkerStatus_optional", {
    # For this machine: the home of the controller. Absent if the database belongs to one home.
    "home": "HomeRef",
    # The attempts whose program has reported metrics there. Absent: none.
    "reportedMetrics": "List[float]",
    # The first known pattern at the end of the newest attempt's output, with its line; without one, the exception with which a Python program ended. The worker searches once the run has exited or vanished. While it runs, the worker searches for patterns after `LimitsSpec.failedCallTimeoutMs` of silence, and only after the last line of progress.
    "matched": "WorkerStatus_matched",
}, total=False)


class WorkerStatus(_WorkerStatus, _WorkerStatus_optional):
    pass


WorkerTicket_logins_1_item_2 = TypedDict("WorkerTicket_logins_1_item_2", {
    "worker": "float",
    "problem": "str",
})

# The way to the workers of a job, for a program that connects by itself.
WorkerTicket = TypedDict("WorkerTicket", {
    "job": "str",
    "allocation": "float",
    # The number of workers.
    "workers": "float",
    # The label of the container of the job's command; null if it runs in none.
    "container": "Union[str, None]",
    # In worker order, if asked for. A worker without a known address has a reason instead.
    "logins": "Union[List[Union[WorkerLogin, WorkerTicket_logins_1_item_2]], None]",
})

# A worker of the newest attempt.
WorkerView = TypedDict("WorkerView", {
    "worker": "WorkerId",
    "address": "Union[str, None]",
    # Its state, for people.
    "message": "str",
    # Age of the newest output; null without any.
    "logAgeMs": "Union[Duration, None]",
    # The newest line of output; null without any.
    "lastLine": "Union[str, None]",
})

ZoneRow_lastAnswer_1 = TypedDict("ZoneRow_lastAnswer_1", {
    "answer": "Union[CapacityAnswer, Literal[\"ready\"]]",
    "answeredAt": "Instant",
    "job": "str",
})

ZoneRow_lastGrant_1 = TypedDict("ZoneRow_lastGrant_1", {
    "grantedAt": "Instant",
    "waitedMs": "Duration",
})

# A zone that has answered a job of this installation, or that a job names.
ZoneRow = TypedDict("ZoneRow", {
    "project": "str",
    "zone": "str",
    "accelerator": "str",
    "pricing": "Pricing",
    "lastAnswer": "Union[ZoneRow_lastAnswer_1, None]",
    "lastGrant": "Union[ZoneRow_lastGrant_1, None]",
    # Ids of jobs.
    "heldBy": "List[str]",
    "awaitedBy": "List[str]",
    "simulated": "bool",
})

EventsAnswer_value_item = TypedDict("EventsAnswer_value_item", {
    "seq": "float",
    "event": "Event",
})

EventsAnswer_value_item = TypedDict("EventsAnswer_value_item", {
    "seq": "float",
    "event": "Event",
})

# An answer with the address of the registry.
ImagesAnswer_value = TypedDict("ImagesAnswer_value", {
    "value": "List[ImageRow]",
    "fetchedAt": "Instant",
    # The reason for an old copy: the registry did not answer. Null for a fresh answer.
    "staleReason": "Union[str, None]",
    "server": "str",
})

# An answer with the address of the registry.
ImagesAnswer_value = TypedDict("ImagesAnswer_value", {
    "value": "List[ImageRow]",
    "fetchedAt": "Instant",
    # The reason for an old copy: the registry did not answer. Null for a fresh answer.
    "staleReason": "Union[str, None]",
    "server": "str",
})

# An answer with the address of the registry.
ImageAnswer_value = TypedDict("ImageAnswer_value", {
    "value": "ImageDetails",
    "fetchedAt": "Instant",
    # The reason for an old copy: the registry did not answer. Null for a fresh answer.
    "staleReason": "Union[str, None]",
    "server": "str",
})

# An answer with the address of the registry.
ImageAnswer_value = TypedDict("ImageAnswer_value", {
    "value": "ImageDetails",
    "fetchedAt": "Instant",
    # The reason for an old copy: the registry did not answer. Null for a fresh answer.
    "staleReason": "Union[str, None]",
    "server": "str",
})

LabChangeUserAnswer_value = TypedDict("LabChangeUserAnswer_value", {
    "before": "LabUser",
    "after": "LabUser",
})

LabChangeUserAnswer_value = TypedDict("LabChangeUserAnswer_value", {
    "before": "LabUser",
    "after": "LabUser",
})

LabCheckFolderAnswer_value = TypedDict("LabCheckFolderAnswer_value", {
    "hasScript": "bool",
})

LabCheckFolderAnswer_value = TypedDict("LabCheckFolderAnswer_value", {
    "hasScript": "bool",
})

LabOpenWindowAnswer_value = TypedDict("LabOpenWindowAnswer_value", {
    "session": "str",
    "window": "LabWindow",
    "job": "LabJob",
})

LabOpenWindowAnswer_value = TypedDict("LabOpenWindowAnswer_value", {
    "session": "str",
    "window": "LabWindow",
    "job": "LabJob",
})

LabClearWindowsAnswer_windows_item = TypedDict("LabClearWindowsAnswer_windows_item", {
    "job": "str",
    "attempt": "float",
})

_LabChangeBookingAnswer_command_1 = TypedDict("_LabChangeBookingAnswer_command_1", {
    "kind": "Literal[\"book\"]",
    "user": "str",
})
_LabChangeBookingAnswer_command_1_optional = TypedDict("_LabChangeBookingAnswer_command_1_optional", {
    "seen": "Union[SeenBooking, None]",
    "by": "UserName",
    "scriptNote": "str",
}, total=False)


class LabChangeBookingAnswer_command_1(_LabChangeBookingAnswer_command_1, _LabChangeBookingAnswer_command_1_optional):
    pass


_LabChangeBookingAnswer_command_2 = TypedDict("_LabChangeBookingAnswer_command_2", {
    "kind": "Literal[\"release\"]",
})
_LabChangeBookingAnswer_command_2_optional = TypedDict("_LabChangeBookingAnswer_command_2_optional", {
    "seen": "Union[SeenBooking, None]",
    "by": "UserName",
}, total=False)


class LabChangeBookingAnswer_command_2(_LabChangeBookingAnswer_command_2, _LabChangeBookingAnswer_command_2_optional):
    pass


ClusterUnscheduledPodsAnswer_value_item = TypedDict("ClusterUnscheduledPodsAnswer_value_item", {
    "namespace": "str",
    # The Job that owns the pod; without an owner, the Job in its label `batch.kubernetes.io/job-name`. Null without one.
    "job": "Union[str, None]",
})

ClusterWatchJobsAnswer_value_1 = TypedDict("ClusterWatchJobsAnswer_value_1", {
    "kind": "Literal[\"changed\"]",
    "object": "ClusterJob",
})

ClusterWatchJobsAnswer_value_2 = TypedDict("ClusterWatchJobsAnswer_value_2", {
    "kind": "Literal[\"gone\"]",
    "object": "ClusterJob",
})

ClusterWatchJobsAnswer_value_3 = TypedDict("ClusterWatchJobsAnswer_value_3", {
    "kind": "Literal[\"synced\"]",
})

ClusterWatchJobsAnswer_value_4 = TypedDict("ClusterWatchJobsAnswer_value_4", {
    "kind": "Literal[\"lost\"]",
    "why": "Union[str, None]",
})


class Operations(Connection):
    """Every operation of the API."""

    _version = "0.1.0"

    def who_am_i(
        self,
    ) -> Actor:
        """The user, the role and the token of the request. Returns an error if the database cannot be read."""
        return self._json('GET', '/v1/user')

    def installation_id(
        self,
    ) -> Union[str, None]:
        """The installation id, which labels the resources of its jobs in clouds; null before the first write."""
        return self._json('GET', '/v1/installation')

    def actions(
        self,
        ref: Ref,
    ) -> JobActions:
        """For each command of a job, whether the actor may give it now, and the reason if not."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/actions')

    def create(
        self,
        request: CreateRequest,
    ) -> CreateAnswer:
        """Creates a job. Checks limits and confirmations in the transaction that stores the job, so no fact can have changed."""
        return self._json('POST', '/v1/jobs', json=request)

    def list(
        self,
        *,
        ids: Optional[Sequence[str]] = None,
        user: Optional[UserName] = None,
        own: Optional[bool] = None,
        phases: Optional[Sequence[Phase]] = None,
        tag: Optional[str] = None,
        name: Optional[str] = None,
        zone: Optional[str] = None,
        accelerator: Optional[str] = None,
        created_since: Optional[Instant] = None,
        all: Optional[bool] = None,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> JobList:
        """Lists jobs. With a limit or a cursor it returns one page: no job appears twice in the pages, and a job that exists throughout is never missing."""
        return self._json('GET', '/v1/jobs', query={'ids': ids, 'user': user, 'own': own, 'phases': phases, 'tag': tag, 'name': name, 'zone': zone, 'accelerator': accelerator, 'createdSince': created_since, 'all': all, 'limit': limit, 'cursor': cursor})

    def read_manifest(
        self,
        request: ManifestRequest,
    ) -> ManifestAnswer:
        """Parses a manifest, for a client without the parser: returns its spec, and stores the contents of the files that it names. Status 400 with all problems."""
        return self._json('POST', '/v1/manifests', json=request)

    def plan(
        self,
        spec: JobSpec,
        *,
        workdir: Optional[str] = None,
    ) -> Plan:
        """The plan of a new job, and the reasons for a confirmation or a refusal. `workdir`: the folder of `job.workdir`, for people."""
        return self._json('POST', '/v1/plans', json={'spec': spec, 'workdir': workdir})

    def resolve_name(
        self,
        name: str,
        purpose: RefPurpose,
    ) -> str:
        """The id of the job with this name, even if the name looks like an id. Status 404 or 409."""
        return self._json('GET', f'/v1/names/{self._segment(name)}', query={'purpose': purpose})

    def hosts(
        self,
    ) -> List[NamedHost]:
        """The hosts of the settings; the machine of the controller is first."""
        return self._json('GET', '/v1/hosts')

    def settings(
        self,
    ) -> List[SettingRow]:
        """The effective settings on the machine of the controller. Only for admins."""
        return self._json('GET', '/v1/settings')

    def own_prices(
        self,
    ) -> List[OwnPrice]:
        """The setting `prices`."""
        return self._json('GET', '/v1/prices')

    def host_queues(
        self,
    ) -> List[PoolQueue]:
        """The queue of each host; the machine of the controller is first. A job holds its slots in a short backoff, and waits in a long one."""
        return self._json('GET', '/v1/host-queues')

    def queue(
        self,
    ) -> QueueList:
        """The jobs that wait, with the reason of each, in the order in which jobman starts them."""
        return self._json('GET', '/v1/queue')

    def zones(
        self,
        *,
        project: Optional[str] = None,
        accelerator: Optional[str] = None,
    ) -> List[ZoneRow]:
        """The zones that jobs have requested or name, with the newest answers of the cloud."""
        return self._json('GET', '/v1/zones', query={'project': project, 'accelerator': accelerator})

    def activity(
        self,
    ) -> List[JobActivity]:
        """The unfinished jobs and those that hold capacity, newest first, with the newest output of their workers. Leaves out jobs that the actor may not read."""
        return self._json('GET', '/v1/activity')

    def show(
        self,
        ref: Ref,
        *,
        is_kept: Optional[bool] = None,
    ) -> JobView:
        """One job. `isKept`: its sentences contain times instead of ages, for a copy that people read later."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}', query={'isKept': is_kept})

    def usage(
        self,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        jobs: Optional[Sequence[str]] = None,
        except_jobs: Optional[Sequence[str]] = None,
        name: Optional[str] = None,
        name_glob: Optional[str] = None,
        tag: Optional[str] = None,
        zone: Optional[str] = None,
        accelerator: Optional[str] = None,
    ) -> Rows[UsageRow]:
        """The rows of the usage ledger that overlap the period, including those of deleted jobs."""
        return self._rows('GET', '/v1/usage', query={'limit': limit, 'cursor': cursor, 'since': since, 'until': until, 'jobs': jobs, 'exceptJobs': except_jobs, 'name': name, 'nameGlob': name_glob, 'tag': tag, 'zone': zone, 'accelerator': accelerator})

    def cost(
        self,
        by: CostGrouping,
        *,
        jobs: Optional[Sequence[str]] = None,
        tag: Optional[str] = None,
        zone: Optional[str] = None,
        accelerator: Optional[str] = None,
        since: Optional[Instant] = None,
        until: Optional[Instant] = None,
        limit: Optional[float] = None,
        user: Optional[UserName] = None,
        name: Optional[str] = None,
    ) -> CostReport:
        """The cost in a period, from the usage ledger, including deleted jobs."""
        return self._json('GET', '/v1/cost', query={'jobs': jobs, 'tag': tag, 'zone': zone, 'accelerator': accelerator, 'by': by, 'since': since, 'until': until, 'limit': limit, 'user': user, 'name': name})

    def diff_side(
        self,
        ref: Ref,
        *,
        attempt: Optional[Union[float, None]] = None,
    ) -> DiffSide:
        """The facts about a job that `diff` compares, by default of its newest attempt. Status 404 for an absent attempt."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/diff-side', query={'attempt': attempt})

    def why(
        self,
        ref: Ref,
    ) -> Why:
        """The reason for the phase of a job, and what happens next."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/why')

    def events(
        self,
        ref: Ref,
        after: float,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[EventsAnswer_value_item]:
        """The history after the event with the number `after` (0: all), oldest first."""
        return self._rows('GET', f'/v1/jobs/{self._segment(ref)}/events', query={'after': after, 'limit': limit, 'cursor': cursor})

    def passes(
        self,
        ref: Ref,
        *,
        attempt: Optional[float] = None,
        decide: Optional[bool] = None,
    ) -> PassList:
        """The recorded passes of the controller over the job, oldest first. Status 404 for an absent attempt."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/passes', query={'attempt': attempt, 'decide': decide})

    def manifest(
        self,
        ref: Ref,
    ) -> Union[str, None]:
        """The manifest as written, with its comments; null if it is not stored."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/manifest')

    def workdir_changes(
        self,
        ref: Ref,
        copy: float,
    ) -> Union[str, None]:
        """The uncommitted changes in a copy of the working directory, as a unified diff; null without any."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/workdirs/{self._segment(copy)}/changes')

    def read_workdir_file(
        self,
        ref: Ref,
        copy: float,
        path: str,
    ) -> bytes:
        """A file of a copy of the working directory; for a link, an arrow and the target. Status 404 without such a file."""
        return self._bytes('GET', f'/v1/jobs/{self._segment(ref)}/workdirs/{self._segment(copy)}/file', query={'path': path})

    def read_step_file(
        self,
        ref: Ref,
        to: str,
    ) -> bytes:
        """A file that a setup step copies to the workers, by its path there. Status 404 without such a file."""
        return self._bytes('GET', f'/v1/jobs/{self._segment(ref)}/step-file', query={'to': to})

    def put_blobs(
        self,
        blobs: Sequence[Blob],
    ) -> None:
        """Stores blobs that a new job names by digest. Safe to repeat. Refuses a blob whose content has another digest."""
        return self._json('POST', '/v1/blobs', blobs=blobs)

    def has_blobs(
        self,
        digests: BlobDigests,
        *,
        sizes: Optional[List[float]] = None,
    ) -> List[Digest]:
        """The stored blobs among these, which stay for at least a day. `sizes`: leaves out damaged blobs, which have another size."""
        return self._json('POST', '/v1/blobs/search', json={'digests': digests, 'sizes': sizes})

    def send_command(
        self,
        ref: Ref,
        verb: Verb,
        options: CommandOptions,
    ) -> CommandResult:
        """Gives a command to a job. If `ok` is false, `message` says why. Status 412 if the revision has changed."""
        return self._json('POST', f'/v1/jobs/{self._segment(ref)}/commands/{self._segment(verb)}', json=options)

    def worker_ticket(
        self,
        ref: Ref,
        *,
        options: Optional[TicketOptions] = None,
    ) -> WorkerTicket:
        """The logins and addresses with which a program connects to the workers of a job. Returns an error if it has none now."""
        return self._json('POST', f'/v1/jobs/{self._segment(ref)}/ticket', json=options)

    def worker_figures(
        self,
        ref: Ref,
        worker: WorkerId,
        attempt: float,
    ) -> FiguresAnswer:
        """Measures a worker and the program on it, which takes ten seconds at most."""
        return self._json('GET', f'/v1/jobs/{self._segment(ref)}/figures', query={'worker': worker, 'attempt': attempt})

    def run_step(
        self,
        ref: Ref,
        step: str,
        *,
        options: Optional[StepRunOptions] = None,
    ) -> Iterator[StepProgress]:
        """Runs a setup step again on the workers that the job holds, and records it. Returns an error with the reason if the actor may not run it now. Leaving the stream does not stop the step."""
        return self._events('POST', f'/v1/jobs/{self._segment(ref)}/steps/{self._segment(step)}/runs', json=options)

    def logs(
        self,
        ref: Ref,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
        worker: Optional[WorkerId] = None,
        step: Optional[str] = None,
        attempt: Optional[float] = None,
        all: Optional[Literal[True]] = None,
    ) -> Rows[LogRef]:
        """The logs of one attempt in the order of workers; by default of the newest attempt that has started."""
        return self._rows('GET', f'/v1/jobs/{self._segment(ref)}/logs', query={'limit': limit, 'cursor': cursor, 'worker': worker, 'step': step, 'attempt': attempt, 'all': all})

    def read_log(
        self,
        ref: Ref,
        id: str,
        from_: float,
        max_bytes: float,
    ) -> LogPart:
        """The bytes of a log from an offset on, at most `maxBytes` and at most 1 MiB; none after its end. Status 404 for an unknown log or one whose file was removed."""
        return self._log('GET', f'/v1/jobs/{self._segment(ref)}/logs/{self._segment(id)}', query={'from': from_, 'maxBytes': max_bytes})

    def read_logs(
        self,
        ref: Ref,
        parts: List[LogPartRequest],
    ) -> Iterator[LogPart]:
        """Reads parts of several logs, such as those of many workers, with one request. Each part is as from `readLog`."""
        return self._events('POST', f'/v1/jobs/{self._segment(ref)}/log-parts', json={'parts': parts})

    def search_logs(
        self,
        ref: Ref,
        search: LogSearch,
    ) -> Iterator[LogSearchStep]:
        """Finds the nearest line with a text, or one that reports an error. Reads the logs as far as needed, and reports progress at least four times a second; leaving the stream ends the search. The result comes last; with `inEach`, there is one for each log that has such a line. Status 400 for a text without or with more than 200 characters, and as `readLog` for each log."""
        return self._events('POST', f'/v1/jobs/{self._segment(ref)}/log-searches', json=search)

    def metrics(
        self,
        ref: Ref,
        *,
        metrics: Optional[Sequence[str]] = None,
        attempt: Optional[float] = None,
        worker: Optional[WorkerId] = None,
        since: Optional[Instant] = None,
        max_points: Optional[float] = None,
    ) -> Iterator[MetricsStep]:
        """The metrics of the program, reduced to about `maxPoints` points each."""
        return self._events('GET', f'/v1/jobs/{self._segment(ref)}/metrics', query={'metrics': metrics, 'attempt': attempt, 'worker': worker, 'since': since, 'maxPoints': max_points})

    def metric_points(
        self,
        ref: Ref,
        *,
        metrics: Optional[Sequence[str]] = None,
        attempt: Optional[float] = None,
        worker: Optional[WorkerId] = None,
        since: Optional[Instant] = None,
        max_points: Optional[float] = None,
    ) -> Iterator[MetricPointView]:
        """Every point that the program printed or reported, attempt by attempt. `maxPoints` is ignored."""
        return self._events('GET', f'/v1/jobs/{self._segment(ref)}/metric-points', query={'metrics': metrics, 'attempt': attempt, 'worker': worker, 'since': since, 'maxPoints': max_points})

    def clean(
        self,
        ref: Ref,
        *,
        options: Optional[OnBehalf] = None,
    ) -> CommandResult:
        """Removes the files of a finished job, such as logs, copies of the working directory, and the job's own secrets."""
        return self._json('POST', f'/v1/jobs/{self._segment(ref)}/clean', json=options)

    def list_cleanable(
        self,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[JobRow]:
        """The actor's own jobs whose files `clean` would remove, newest first."""
        return self._rows('GET', '/v1/cleanable-jobs', query={'limit': limit, 'cursor': cursor})

    def secrets(
        self,
    ) -> List[SecretView]:
        """The actor's own named secrets, by name."""
        return self._json('GET', '/v1/secrets')

    def set_secret(
        self,
        name: SecretName,
        value: bytes,
    ) -> Literal["added", "replaced"]:
        """Stores a secret of the actor, or replaces its value: jobs read it at each start. Status 400 for an invalid name or value."""
        return self._json('PUT', f'/v1/secrets/{self._segment(name)}', bytes=value)

    def delete_secret(
        self,
        name: SecretName,
    ) -> None:
        """Deletes a secret of the actor. Status 404 without that secret, 409 while an unfinished job needs it."""
        return self._json('DELETE', f'/v1/secrets/{self._segment(name)}')

    def replace_job_secret(
        self,
        ref: Ref,
        name: SecretName,
        value: bytes,
    ) -> None:
        """Replaces the value of a secret that `create` stored for the job. Status 400 for an invalid value, 404 if the job has no such secret of its own."""
        return self._json('PUT', f'/v1/jobs/{self._segment(ref)}/secrets/{self._segment(name)}', bytes=value)

    def messages(
        self,
        limit: float,
        *,
        cursor: Optional[str] = None,
    ) -> Rows[MessageView]:
        """The messages about events, newest first, including those that are not delivered yet. An admin gets all messages, another actor those about their own jobs."""
        return self._rows('GET', '/v1/messages', query={'limit': limit, 'cursor': cursor})

    def held_events(
        self,
    ) -> List[HeldEvents]:
        """The events that no message contains yet: all for an admin, for another actor those of their own jobs."""
        return self._json('GET', '/v1/held-events')

    def recipients(
        self,
    ) -> List[RecipientView]:
        """The recipients of notifications in the settings."""
        return self._json('GET', '/v1/recipients')

    def test_recipient(
        self,
        recipient: str,
    ) -> TestAnswer:
        """Sends a test message now, without retries. An unknown recipient is a failure."""
        return self._json('POST', f'/v1/recipients/{self._segment(recipient)}/test')

    def open_secrets(
        self,
    ) -> List[HostPath]:
        """The files with secrets of channels that other users of the machine can read."""
        return self._json('GET', '/v1/open-secrets')

    def recipients_in_use(
        self,
    ) -> List[RecipientInUse]:
        """The recipients of unfinished jobs and undelivered events. Leaves out jobs that the actor may not read."""
        return self._json('GET', '/v1/recipients-in-use')

    def drop_events(
        self,
        recipient: str,
    ) -> float:
        """Gives up the undelivered events for a recipient, and returns their number. Only an admin may give up events about the jobs of others."""
        return self._json('DELETE', f'/v1/recipients/{self._segment(recipient)}/events')

    def changes_since(
        self,
        *,
        cursor: Optional[Union[Cursor, None]] = None,
        jobs: Optional[Sequence[str]] = None,
    ) -> Iterator[Change]:
        """Reports the changes after the cursor, as they happen: events, and grown logs of the newest attempts, of the jobs with these ids, or of all jobs that the actor may read. Without a cursor it begins now, with one change `jobs`. Does not end."""
        return self._events('GET', '/v1/changes', query={'cursor': cursor, 'jobs': jobs})

    def tpus(
        self,
        *,
        project: Optional[str] = None,
        zone: Optional[str] = None,
        all: Optional[bool] = None,
    ) -> TpuList:
        """The TPUs in the projects that the settings, the jobs and the query name. Returns an error without a project."""
        return self._json('GET', '/v1/tpus', query={'project': project, 'zone': zone, 'all': all})

    def forget_project(
        self,
        project: str,
        *,
        confirmed: Optional[List[str]] = None,
    ) -> ForgetAnswer:
        """Excludes a project that only finished jobs name from `tpus` and `orphans`. `confirmed`: the resources there that the user gives up, although they may still exist. Status 409 if the project is in use."""
        return self._json('POST', f'/v1/projects/{self._segment(project)}/forget', json={'confirmed': confirmed})

    def quota(
        self,
        *,
        project: Optional[str] = None,
        zone: Optional[str] = None,
        is_kept: Optional[bool] = None,
    ) -> QuotaReport:
        """Limits and use of the projects that `tpus` finds. Returns an error without a project."""
        return self._json('GET', '/v1/quota', query={'project': project, 'zone': zone, 'isKept': is_kept})

    def known_quota(
        self,
        projects: Sequence[str],
    ) -> List[QuotaRow]:
        """The newest known limits, without the chips in use. Sends no request to a cloud."""
        return self._json('GET', '/v1/known-quota', query={'projects': projects})

    def quota_warnings(
        self,
        capacity: TpuSpec,
    ) -> List[str]:
        """A sentence for each alternative of a capacity request that exceeds the quota. Returns soon, and never rejects."""
        return self._json('POST', '/v1/quota-warnings', json=capacity)

    def storage(
        self,
        exact: bool,
        *,
        project: Optional[str] = None,
    ) -> Iterator[StorageReport]:
        """The buckets of the projects that `tpus` finds. Each report has all results so far; the last one is complete. Returns an error without a project."""
        return self._events('GET', '/v1/storage', query={'project': project, 'exact': exact})

    def checkpoints(
        self,
    ) -> Iterator[CheckpointReport]:
        """The checkpoint folders of the jobs that the actor may read, in reports as from `storage`."""
        return self._events('GET', '/v1/checkpoints')

    def orphans(
        self,
    ) -> OrphanReport:
        """Finds orphans in all locations that the settings, the jobs and the recorded orphans name."""
        return self._json('GET', '/v1/orphans')

    def observe_orphans(
        self,
        orphans: List[Orphan],
    ) -> List[OrphanView]:
        """Checks these orphans now."""
        return self._json('POST', '/v1/orphans/observe', json={'orphans': orphans})

    def release_orphan(
        self,
        orphan: Orphan,
    ) -> OutcomeResult:
        """Releases an orphan. `done`: the cloud accepted the request, or no resource of this installation exists. Safe to repeat."""
        return self._json('POST', '/v1/orphans/release', json=orphan)

    def forget_orphan(
        self,
        orphan: Orphan,
    ) -> None:
        """Removes a deleted orphan from the recorded orphans."""
        return self._json('POST', '/v1/orphans/forget', json=orphan)

    def billing(
        self,
        since: Instant,
        until: Instant,
        by: Sequence[BillingGrouping],
    ) -> BillingAnswer:
        """The billed costs from the export that the settings name, next to the estimates; without an export, only the estimates."""
        return self._json('GET', '/v1/billing', query={'since': since, 'until': until, 'by': by})

    def images(
        self,
        refresh: bool,
    ) -> ImagesAnswer_value:
        """The images of the registry project in the settings, else of all visible projects. Returns an error without a registry."""
        return self._json('GET', '/v1/images', query={'refresh': refresh})

    def image(
        self,
        name: str,
        refresh: bool,
    ) -> ImageAnswer_value:
        """One image. `name`: `trainer`, `trainer:3.1` or `lab/nested/trainer@sha256:…`, also with the address of the registry before it."""
        return self._json('GET', f'/v1/images/{self._segment(name)}', query={'refresh': refresh})

    def check_login(
        self,
        project: str,
    ) -> None:
        """Checks the credentials for the cloud of a project. Status 503 if they are missing or invalid."""
        return self._json('POST', f'/v1/projects/{self._segment(project)}/check-login')

    def bucket_statuses(
        self,
        project: str,
        buckets: List[str],
        pending_spec: Union[JobSpec, None],
    ) -> BucketAnswer:
        """The status of each bucket, in the order of the names, within seconds. `pendingSpec`: a new job, for which the TPU emulator starts."""
        return self._json('POST', '/v1/bucket-statuses', json={'project': project, 'buckets': buckets, 'pendingSpec': pending_spec})

    def is_controller_running(
        self,
    ) -> bool:
        """True if a controller runs for the database. Returns an error if a damaged lock hides it."""
        return self._json('GET', '/v1/controller')

    def archived_jobs(
        self,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
        name: Optional[str] = None,
        namespace: Optional[str] = None,
        server: Optional[str] = None,
        active: Optional[Literal[True]] = None,
    ) -> Rows[ArchivedJob]:
        """The archived jobs of clusters, newest first. Leaves out jobs that the actor may not read; the methods for one archived job return the same for such a job as for an absent one."""
        return self._rows('GET', '/v1/archive', query={'limit': limit, 'cursor': cursor, 'name': name, 'namespace': namespace, 'server': server, 'active': active})

    def archived_job(
        self,
        uid: str,
    ) -> Union[ArchivedJob, None]:
        """One archived job; null if there is none."""
        return self._json('GET', f'/v1/archive/{self._segment(uid)}')

    def remove_archived_job(
        self,
        uid: str,
        *,
        on_behalf_of: Optional[UserName] = None,
    ) -> None:
        """Removes the archived logs and history of a job. Status 409 for a job that may still run."""
        return self._json('DELETE', f'/v1/archive/{self._segment(uid)}', query={'onBehalfOf': on_behalf_of})

    def archived_events(
        self,
        uid: str,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[ClusterJobEvent]:
        """The events of an archived job, oldest first."""
        return self._rows('GET', f'/v1/archive/{self._segment(uid)}/events', query={'limit': limit, 'cursor': cursor})

    def archived_logs(
        self,
        uid: str,
    ) -> List[ArchivedLog]:
        """The archived logs of a job."""
        return self._json('GET', f'/v1/archive/{self._segment(uid)}/logs')

    def last_archived_lines(
        self,
        uid: str,
        pods: Sequence[str],
    ) -> List[ArchivedLine]:
        """The newest archived line of each log of these pods."""
        return self._json('GET', f'/v1/archive/{self._segment(uid)}/last-lines', query={'pods': pods})

    def read_archived_log(
        self,
        uid: str,
        pod: str,
        container: str,
        *,
        tail: Optional[float] = None,
        since: Optional[Instant] = None,
        timestamps: Optional[Literal[True]] = None,
    ) -> Iterator[bytes]:
        """Whole lines of an archived log, byte for byte as printed, or with the timestamps of the cluster. Status 404 without a log."""
        return self._chunks('GET', f'/v1/archive/{self._segment(uid)}/log', query={'pod': pod, 'container': container, 'tail': tail, 'since': since, 'timestamps': timestamps})

    def record_cluster_deletion(
        self,
        uid: str,
    ) -> None:
        """Records in the history that the actor has deleted the job in its cluster. Safe to repeat."""
        return self._json('POST', f'/v1/archive/{self._segment(uid)}/deletion')

    def hide_archived_job(
        self,
        uid: str,
        *,
        options: Optional[OnBehalf] = None,
    ) -> None:
        """Removes an archived job from the list. Its logs and history remain available by its name. `onBehalfOf`: the owner that the archived job names."""
        return self._json('POST', f'/v1/archive/{self._segment(uid)}/hide', json=options)

    def users(
        self,
    ) -> List[UserView]:
        """All users for an admin, for another actor only their own entry; by name."""
        return self._json('GET', '/v1/users')

    def add_user(
        self,
        user: NewUser,
    ) -> UserView:
        """Adds a user. Status 400 for an invalid name or login, 409 if the name, a similar one or a login is taken."""
        return self._json('POST', '/v1/users', json=user)

    def change_user(
        self,
        name: UserName,
        change: AccessChange,
    ) -> ChangedUser:
        """Changes a user from the next request on. Status 404 without the user, 409 for the last admin."""
        return self._json('PATCH', f'/v1/users/{self._segment(name)}', json=change)

    def tokens(
        self,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[TokenView]:
        """All tokens for an admin, for another actor only their own; never the values."""
        return self._rows('GET', '/v1/tokens', query={'limit': limit, 'cursor': cursor})

    def create_token(
        self,
        request: TokenRequest,
    ) -> CreatedToken:
        """Creates a token, and returns it: no other response contains it. Its role is never higher than the user's. Status 400 for an invalid request, 404 without the user, 409 if the user has a token of this name."""
        return self._json('POST', '/v1/tokens', json=request)

    def revoke_token(
        self,
        ref: str,
        *,
        user: Optional[UserName] = None,
    ) -> RevokedToken:
        """Revokes a token. `ref`: an id, or a name among the tokens of `user`, by default the actor. Safe to repeat. Status 404."""
        return self._json('DELETE', f'/v1/tokens/{self._segment(ref)}', query={'user': user})

    def audit(
        self,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
        user: Optional[UserName] = None,
        since: Optional[Instant] = None,
        job: Optional[str] = None,
        denied: Optional[bool] = None,
        before: Optional[float] = None,
    ) -> Rows[AuditRow]:
        """The audit log, newest row first: all rows for an admin, for another actor only their own."""
        return self._rows('GET', '/v1/audit', query={'limit': limit, 'cursor': cursor, 'user': user, 'since': since, 'job': job, 'denied': denied, 'before': before})

    def check_lab_command(
        self,
        command: str,
    ) -> None:
        """Refuses a command of `tpu`, such as `book`, if the actor may not use it."""
        return self._json('POST', f'/v1/lab/commands/{self._segment(command)}/check')

    def wake(
        self,
    ) -> Union[str, None]:
        """Wakes the controller, and starts one if none runs. Returns a message for the user, or null."""
        return self._json('POST', '/v1/controller/wake')

    def lab_site(
        self,
    ) -> ServerSite:
        """The settings of the lab. Of a file of the server only its presence is shown."""
        return self._json('GET', '/v1/lab')

    def lab_users(
        self,
    ) -> List[LabUser]:
        """The registered users of the lab."""
        return self._json('GET', '/v1/lab/users')

    def lab_add_user(
        self,
        user: NewLabUser,
    ) -> LabUser:
        """Adds a user to the lab."""
        return self._json('POST', '/v1/lab/users', json=user)

    def lab_change_user(
        self,
        name: str,
        change: UserChange,
    ) -> LabChangeUserAnswer_value:
        """Changes a user of the lab."""
        return self._json('PATCH', f'/v1/lab/users/{self._segment(name)}', json=change)

    def lab_remove_user(
        self,
        name: str,
    ) -> None:
        """Removes the user from the registry; jobs and windows stay."""
        return self._json('DELETE', f'/v1/lab/users/{self._segment(name)}')

    def lab_check_folder(
        self,
        path: str,
    ) -> LabCheckFolderAnswer_value:
        """Checks a folder on the machine of the server. Status 404 if it does not exist."""
        return self._json('POST', '/v1/lab/folders/check', json={'path': path})

    def lab_directory(
        self,
        user: str,
        number: float,
    ) -> DirectoryFacts:
        """The facts about a working directory of a user."""
        return self._json('GET', f'/v1/lab/users/{self._segment(user)}/directories/{self._segment(number)}')

    def lab_tpus(
        self,
    ) -> List[LabTpu]:
        """The TPUs that the lab shares."""
        return self._json('GET', '/v1/lab/tpus')

    def lab_tpu_aliases(
        self,
    ) -> Dict[str, str]:
        """The full names of TPUs by alias."""
        return self._json('GET', '/v1/lab/tpu-aliases')

    def lab_change_tpu(
        self,
        name: str,
        change: TpuChange,
        *,
        alias: Optional[str] = None,
    ) -> Union[LabTpu, None]:
        """Adds or changes a TPU of the lab. `alias` becomes a name of the TPU too."""
        return self._json('PATCH', f'/v1/lab/tpus/{self._segment(name)}', json={'change': change, 'alias': alias})

    def lab_remove_tpu(
        self,
        name: str,
    ) -> None:
        """Removes a TPU from the lab. The TPU itself stays."""
        return self._json('DELETE', f'/v1/lab/tpus/{self._segment(name)}')

    def lab_set_tpu_alias(
        self,
        alias: str,
        name: Union[str, None],
    ) -> None:
        """Sets an alias of a TPU; null removes the alias."""
        return self._json('PUT', f'/v1/lab/tpu-aliases/{self._segment(alias)}', json={'name': name})

    def lab_describe_tpu(
        self,
        name: str,
    ) -> TpuState:
        """The state of a TPU of the lab in the cloud."""
        return self._json('GET', f'/v1/lab/tpus/{self._segment(name)}/state')

    def lab_run_on_workers(
        self,
        name: str,
        script: WorkerScript,
    ) -> Iterator[WorkerAnswer]:
        """Runs a script on the workers of a TPU. Leaving the stream ends the script."""
        return self._events('POST', f'/v1/lab/tpus/{self._segment(name)}/scripts', json=script)

    def lab_holders(
        self,
        name: str,
    ) -> HolderScan:
        """The programs that hold the chips of a TPU."""
        return self._json('GET', f'/v1/lab/tpus/{self._segment(name)}/holders')

    def lab_end_programs(
        self,
        name: str,
        programs: EndRequest,
    ) -> EndResult:
        """Ends programs on the workers of a TPU."""
        return self._json('POST', f'/v1/lab/tpus/{self._segment(name)}/ends', json=programs)

    def lab_jobs(
        self,
        *,
        user: Optional[str] = None,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[LabJob]:
        """The jobs of `tpu run`, of one user or of all."""
        return self._rows('GET', '/v1/lab/jobs', query={'user': user, 'limit': limit, 'cursor': cursor})

    def lab_tag_job(
        self,
        job: str,
        tag: str,
    ) -> None:
        """Sets the tag of a job."""
        return self._json('PUT', f'/v1/lab/jobs/{self._segment(job)}/tag', json={'tag': tag})

    def lab_windows(
        self,
        query: WindowQuery,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[WindowWithJob]:
        """The windows that the query selects."""
        return self._rows('POST', '/v1/lab/windows/search', query={'limit': limit, 'cursor': cursor}, json=query)

    def lab_open_window(
        self,
        job: str,
        attempt: float,
    ) -> LabOpenWindowAnswer_value:
        """The window of an attempt, or a new one with the user's next number."""
        return self._json('PUT', f'/v1/lab/jobs/{self._segment(job)}/windows/{self._segment(attempt)}')

    def lab_clear_windows(
        self,
        windows: List[LabClearWindowsAnswer_windows_item],
    ) -> None:
        """Removes windows from the list of `tpu check`."""
        return self._json('POST', '/v1/lab/windows/clear', json={'windows': windows})

    def lab_tmux_windows(
        self,
        session: str,
    ) -> Union[List[float], None]:
        """The numbers of the windows of jobs in a tmux session; null if the session does not exist."""
        return self._json('GET', f'/v1/lab/sessions/{self._segment(session)}/windows')

    def lab_close_tmux_window(
        self,
        session: str,
        window: float,
    ) -> bool:
        """Closes a tmux window of a job. False if the window does not exist or is not one of a job."""
        return self._json('DELETE', f'/v1/lab/sessions/{self._segment(session)}/windows/{self._segment(window)}')

    def lab_check_rows(
        self,
        user: str,
    ) -> List[CheckRow]:
        """The rows of `tpu check`."""
        return self._json('GET', f'/v1/lab/users/{self._segment(user)}/attempts')

    def lab_news(
        self,
        user: str,
        after: float,
        *,
        limit: Optional[float] = None,
        cursor: Optional[str] = None,
    ) -> Rows[NewsEvent]:
        """Events of the user's jobs after the given number (0: all), oldest first."""
        return self._rows('GET', f'/v1/lab/users/{self._segment(user)}/news', query={'after': after, 'limit': limit, 'cursor': cursor})

    def lab_check_now(
        self,
        jobs: List[str],
    ) -> Union[str, None]:
        """Makes the controller check these jobs now. Returns a message for the user, or null."""
        return self._json('POST', '/v1/lab/checks', json={'jobs': jobs})

    def lab_usage(
        self,
    ) -> LabUsage:
        """The bookings and the jobs of each TPU. If the sheet does not answer, the bookings are those of its newest copy."""
        return self._json('GET', '/v1/lab/usage')

    def lab_bookings(
        self,
    ) -> SheetContents:
        """The contents of the booking sheet."""
        return self._json('GET', '/v1/lab/bookings')

    def lab_change_booking(
        self,
        tpu: str,
        command: Union[LabChangeBookingAnswer_command_1, LabChangeBookingAnswer_command_2],
    ) -> Union[ChangedBooking, None]:
        """Books or releases a TPU. Null: the sheet has no row for the TPU. Status 409 for a release while a job uses it."""
        return self._json('PUT', f'/v1/lab/bookings/{self._segment(tpu)}', json=command)

    def lab_observe_booking(
        self,
        tpu: str,
        exists: bool,
    ) -> Delivery:
        """Records in the booking sheet whether the TPU exists."""
        return self._json('PUT', f'/v1/lab/bookings/{self._segment(tpu)}/existence', json={'exists': exists})

    def lab_deliver_bookings(
        self,
    ) -> Delivery:
        """Writes stored changes that are due to the spreadsheet."""
        return self._json('POST', '/v1/lab/bookings/deliveries')

    def cluster_site(
        self,
    ) -> ClusterSite:
        """The use of clusters by the server."""
        return self._json('GET', '/v1/clusters')

    def cluster_settings(
        self,
    ) -> KubernetesObject:
        """The settings of Kubernetes jobs."""
        return self._json('GET', '/v1/cluster-settings')

    def cluster_context(
        self,
        *,
        context: Optional[str] = None,
        namespace: Optional[str] = None,
    ) -> ClusterContext:
        """The context and namespace that a choice selects. Sends no request to the cluster."""
        return self._json('GET', '/v1/cluster-context', query={'context': context, 'namespace': namespace})

    def cluster_jobs(
        self,
        context: str,
        namespace: str,
        *,
        all_namespaces: Optional[Literal[True]] = None,
        labels: Optional[str] = None,
        name: Optional[str] = None,
        fields: Optional[str] = None,
    ) -> Iterator[List[ClusterJob]]:
        """The Jobs of a namespace, in pages. Every role may read what a list shows."""
        return self._events('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/jobs', query={'allNamespaces': all_namespaces, 'labels': labels, 'name': name, 'fields': fields})

    def cluster_submit(
        self,
        context: str,
        namespace: str,
        submission: JobSubmission,
    ) -> KubernetesObject:
        """Creates a Job that belongs to the actor, and archives it. Returns the Job with the defaults of the cluster."""
        return self._json('POST', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/jobs', json=submission)

    def cluster_job(
        self,
        context: str,
        namespace: str,
        name: str,
    ) -> Union[ClusterJob, None]:
        """One Job, with the fields that jobman uses; null if it does not exist."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/jobs/{self._segment(name)}')

    def cluster_raw_job(
        self,
        context: str,
        namespace: str,
        name: str,
    ) -> Union[KubernetesObject, None]:
        """The complete Job object."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/jobs/{self._segment(name)}/object')

    def cluster_pods(
        self,
        context: str,
        namespace: str,
        *,
        all_namespaces: Optional[Literal[True]] = None,
        labels: Optional[str] = None,
        name: Optional[str] = None,
        fields: Optional[str] = None,
        job: Optional[str] = None,
    ) -> Iterator[List[ClusterPod]]:
        """The pods of a namespace, in pages."""
        return self._events('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/pods', query={'allNamespaces': all_namespaces, 'labels': labels, 'name': name, 'fields': fields, 'job': job})

    def cluster_pod_usage(
        self,
        context: str,
        namespace: str,
    ) -> Union[List[PodUsage], None]:
        """The CPU and memory usage of the pods; null without the metrics API."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/pod-usage')

    def cluster_unscheduled_pods(
        self,
        context: str,
        namespace: str,
        *,
        all_namespaces: Optional[Literal[True]] = None,
        labels: Optional[str] = None,
        name: Optional[str] = None,
        fields: Optional[str] = None,
    ) -> Iterator[List[ClusterUnscheduledPodsAnswer_value_item]]:
        """The pods of Jobs that have no node yet, in pages."""
        return self._events('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/unscheduled-pods', query={'allNamespaces': all_namespaces, 'labels': labels, 'name': name, 'fields': fields})

    def cluster_nodes(
        self,
        context: str,
        namespace: str,
    ) -> Union[List[ClusterNode], None]:
        """The nodes of the cluster; null without the right to list them."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/nodes')

    def cluster_priority_classes(
        self,
        context: str,
        namespace: str,
    ) -> Union[List[PriorityClass], None]:
        """The PriorityClasses of the cluster; null without the right to list them."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/priority-classes')

    def cluster_queue_priority_classes(
        self,
        context: str,
        namespace: str,
    ) -> Union[List[PriorityClass], None]:
        """The WorkloadPriorityClasses of Kueue; null without Kueue, or without the right to list them."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/queue-priority-classes')

    def cluster_events(
        self,
        context: str,
        namespace: str,
        names: List[str],
    ) -> Union[List[ClusterEvent], None]:
        """The events of the objects with these names; null without the right to list them."""
        return self._json('POST', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/events/search', json={'names': names})

    def cluster_quotas(
        self,
        context: str,
        namespace: str,
    ) -> Union[List[ClusterQuota], None]:
        """The ResourceQuotas of a namespace; null without the right to list them."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/quotas')

    def cluster_config_map(
        self,
        context: str,
        namespace: str,
        name: str,
    ) -> Union[Dict[str, str], None]:
        """The data of a ConfigMap that the settings name; null if it does not exist."""
        return self._json('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/config-maps/{self._segment(name)}')

    def cluster_watch_jobs(
        self,
        context: str,
        namespace: str,
        *,
        all_namespaces: Optional[Literal[True]] = None,
        labels: Optional[str] = None,
        name: Optional[str] = None,
        fields: Optional[str] = None,
    ) -> Iterator[Union[ClusterWatchJobsAnswer_value_1, ClusterWatchJobsAnswer_value_2, ClusterWatchJobsAnswer_value_3, ClusterWatchJobsAnswer_value_4]]:
        """Reports changes of the Jobs of a namespace, as they happen."""
        return self._events('GET', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/job-changes', query={'allNamespaces': all_namespaces, 'labels': labels, 'name': name, 'fields': fields})

    def cluster_logs(
        self,
        context: str,
        namespace: str,
        pod: str,
        container: str,
        query: PodLogQuery,
    ) -> Iterator[bytes]:
        """The log of a container of a job's pod."""
        return self._chunks('POST', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/pods/{self._segment(pod)}/containers/{self._segment(container)}/log', json=query)

    def cluster_perform(
        self,
        context: str,
        namespace: str,
        name: str,
        command: PerformedCommand,
        uid: str,
        *,
        options: Optional[ClusterCommandOptions] = None,
    ) -> Iterator[CommandStep]:
        """Gives a command to the Job with this uid, in the cluster or in the archive. The last step is the result."""
        return self._events('POST', f'/v1/clusters/{self._segment(context)}/namespaces/{self._segment(namespace)}/jobs/{self._segment(name)}/commands/{self._segment(command)}', json={'uid': uid, 'options': options})
