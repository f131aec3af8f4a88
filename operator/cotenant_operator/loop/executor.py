"""Does what a plan wants, action by action.

What the API server answers goes into the observed state at once, so that the next plan never rests on less than what
was done.
"""

import contextlib
import hashlib
import logging
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Final

from cotenant_api import conditions, errors, names
from cotenant_operator import labels, reasons
from cotenant_operator.kube import api, ownership
from cotenant_operator.loop import fences
from cotenant_operator.plans import actions
from cotenant_operator.state import reading, setbacks
from cotenant_operator.state.kinds import WATCHED, Kind
from cotenant_operator.state.observed import AnyPart, Part
from cotenant_operator.state.store import Keys, Store
from cotenant_operator.state.views import Key, Meta
from cotenant_operator.workloads import runs

_LOGGER = logging.getLogger(__name__)

QUOTA_RETRY_SECONDS: Final = 30.0
INVALID_RETRY_SECONDS: Final = 300.0
LEAVING_RETRY_SECONDS: Final = 2.0
_TERMINATING: Final = "being terminated"
_OF_SERVICES: Final = {reasons.CREATION_FORBIDDEN: reasons.SERVICE_FAILED}


class Refused(api.APIError):
    """An object is refused; the DLJob's conditions will say so.

    Args:
        reason, message: of the condition.
        retry_seconds: how long the same is not tried again.
        part: of the DLJob that is refused.
    """

    def __init__(self, reason: str, message: str, *, retry_seconds: float, part: AnyPart = Part.WORKLOAD) -> None:
        self.reason, self.retry_seconds, self.part = reason, retry_seconds, part
        super().__init__(message)


class Executor:
    """Does actions for one DLJob after another.

    Args:
        client: asks the API server.
        store: takes in what it answers.
        now: tells the time of day.
        tell: has other DLJobs looked at that an answer concerns: the watch, which tells it again, names them no more.

    Attributes:
        fences: which workloads no earlier patch can change any more.
    """

    def __init__(
        self, client: api.API, store: Store, *, now: Callable[[], datetime], tell: Callable[[Keys], None]
    ) -> None:
        self._api, self._store, self._now, self._tell = client, store, now, tell
        self.fences = fences.Fences()

    async def execute(self, key: Key, action: actions.Action) -> bool:
        """Do one action; an event is sent by `emit`.

        Returns:
            Whether it was done: not where it creates what is there already.

        Raises:
            Refused: a workload is refused.
            TemporaryError, ConflictError: worth trying again.
        """
        with _marking(actions.part(action)):
            return await self._execute(key, action)

    async def _execute(self, key: Key, action: actions.Action) -> bool:
        match action:
            case actions.Create():
                return await self._create(key, action)
            case actions.ApplyDeployment():
                with self._noting(key, action.uid):
                    await self._apply_deployment(key, action)
            case actions.Change():
                with self._noting(key, action.uid):
                    await self._change(key, action)
            case actions.UpdateRun():
                await self._update_run(key, action)
            case actions.Delete():
                await self._delete(key, action)
            case actions.Discard():
                await self._discard(key, action)
            case actions.PatchStatus():
                await self._patch_status(key, action)
        return True

    @contextlib.contextmanager
    def _noting(self, key: Key, uid: str) -> Iterator[None]:
        """Note whether a patch of a workload was answered; one that is refused changes nothing of what is known."""
        try:
            yield
        except api.BusyError:
            raise
        except errors.TemporaryError:
            self.fences.unanswered(key, uid)
            raise
        self.fences.answered(key, uid)

    async def _change(self, key: Key, action: actions.Change) -> None:
        metadata = {**action.patch.get("metadata", {}), **_as_it_was(action.uid, action.version)}
        # Whoever took it away: what the operator writes carries it, and is watched by it.
        metadata["labels"] = {**metadata.get("labels", {}), names.DLJOB_LABEL: key.name}
        patch = {**action.patch, "metadata": metadata}
        self._keep(key, action.kind, await self._api.merge(action.kind, Key(key.namespace, action.name), patch))

    async def _update_run(self, key: Key, action: actions.UpdateRun) -> None:
        """Patch a run from what the API server has: the spec of a run that cannot be read is not kept here."""
        name = action.manifest["metadata"]["name"]
        standing = await self._api.get(Kind.DLJOB, Key(key.namespace, name))
        patch = runs.update(standing, action.manifest)
        change = actions.Change(kind=Kind.DLJOB, name=name, uid=action.uid, version=action.version, patch=patch)
        with self._noting(key, action.uid):
            await self._change(key, change)

    async def _delete(self, key: Key, action: actions.Delete) -> None:
        name = Key(key.namespace, action.name)
        # One that names a version may be decided otherwise later: it is fenced as a patch is.
        fenced = action.version is not None and action.kind is Kind.JOB
        with self._noting(key, action.uid) if fenced else contextlib.nullcontext():
            await self._api.delete(action.kind, name, uid=action.uid, version=action.version)

    async def _create(self, key: Key, action: actions.Create) -> bool:
        manifest, is_new = action.manifest, True
        name = Key(key.namespace, manifest["metadata"]["name"])
        try:
            made = await self._api.create(action.kind, manifest)
        except api.ConflictError:
            made, is_new = await self._taken(action.kind, name, manifest), False
        except (api.InvalidError, api.ForbiddenError, api.NotFoundError) as error:
            raise refused(error) from error
        else:
            self.fences.answered(key, made["metadata"]["uid"])
        self._keep(key, action.kind, made)
        return is_new

    def _keep(self, key: Key, kind: Kind, value: api.Json) -> None:
        """Take in what the API server has now; the watch has the DLJob looked at whose it is."""
        if kind in WATCHED:
            own = reading.meta(value).key if kind is Kind.DLJOB else key
            self._tell(self._store.put(kind, value) - {own})

    async def _discard(self, key: Key, action: actions.Discard) -> None:
        for seen in await self._owned(key.namespace, action):
            if seen.key.name != action.renew:
                await self._api.delete(action.kind, seen.key, uid=seen.uid)
            else:
                await self._delete_if_empty(action.kind, seen.key)

    async def _owned(self, namespace: str, action: actions.Discard) -> list[Meta]:
        """Return what has that owner, of what carries the labels.

        Anybody may write those: no more than a page is held.
        """
        owned = []
        pages = self._api.pages(action.kind, metadata_only=True, namespace=namespace, selector=action.selector)
        async for page in pages:
            while page:
                seen = reading.meta(page.pop())
                if seen.owner_uid == action.owner_uid:
                    owned.append(seen)
        return owned

    async def _delete_if_empty(self, kind: Kind, name: Key) -> None:
        """Delete an object that nobody has written into, as it was read."""
        with contextlib.suppress(api.NotFoundError):
            found = await self._api.get(kind, name)
            if not (found.get("data") or found.get("binaryData")):
                seen = reading.meta(found)
                await self._api.delete(kind, name, uid=seen.uid, version=seen.version)

    async def _apply_deployment(self, key: Key, action: actions.ApplyDeployment) -> None:
        manifest, version = action.manifest, action.version
        name = Key(key.namespace, manifest["metadata"]["name"])
        standing = await self._api.get(Kind.DEPLOYMENT, name)
        owned = ownership.applied(standing["metadata"].get("managedFields") or (), manager=labels.FIELD_MANAGER)
        if owned is not None:
            # Else what it was created with would stay where the template no longer has it.
            patch = {"metadata": {"managedFields": owned, **_as_it_was(action.uid, version)}}
            version = reading.version(await self._api.merge(Kind.DEPLOYMENT, name, patch))
        try:
            deployment = await self._api.apply(Kind.DEPLOYMENT, manifest, uid=action.uid, version=version)
        except (api.InvalidError, api.ForbiddenError, api.NotFoundError) as error:
            raise refused(error) from error
        self._keep(key, Kind.DEPLOYMENT, deployment)

    async def _taken(self, kind: Kind, name: Key, manifest: actions.Manifest) -> api.Json:
        """Return the object that has the name already: ours from before a restart, or somebody else's."""
        found = await self._api.get(kind, name)
        owner = manifest["metadata"]["ownerReferences"][0]["uid"]
        if reading.meta(found).owner_uid != owner:
            if _is_leaving(found, manifest):
                message = f"waiting for {kind.value} {name.name} of a former DLJob of this name to be deleted"
                raise Refused(reasons.PREVIOUS_PODS_ENDING, message, retry_seconds=LEAVING_RETRY_SECONDS)
            other = "set another spec.service.name" if "ports" in manifest.get("spec", {}) else "rename the DLJob"
            message = f"{kind.value} {name.name} exists and belongs to another owner: delete it, or {other}"
            raise Refused(reasons.NAME_TAKEN, message, retry_seconds=QUOTA_RETRY_SECONDS)
        if kind is Kind.SERVICE and found["spec"].get("selector") != manifest["spec"]["selector"]:
            # Anybody may name the DLJob as owner of what is his.
            message = f"Service {name.name} exists and does not select the pods of this DLJob: delete it"
            raise Refused(reasons.NAME_TAKEN, message, retry_seconds=QUOTA_RETRY_SECONDS)
        return found

    async def emit(self, key: Key, action: actions.EmitEvent) -> None:
        """Create an event; one that is refused is left out, as the status says the same.

        Raises:
            TemporaryError: it may be taken later.
        """
        try:
            await self._api.emit(event(key, action, self._now()))
        except api.APIError as error:
            _LOGGER.warning("%s: event %s refused: %s", key, action.reason, error)

    async def _patch_status(self, key: Key, action: actions.PatchStatus) -> None:
        patch = {"metadata": _as_it_was(action.uid, action.version), "status": dict(action.status)}
        written = await self._api.merge(Kind.DLJOB, key, patch, subresource="status")
        self._keep(key, Kind.DLJOB, written)


@contextlib.contextmanager
def _marking(part: AnyPart) -> Iterator[None]:
    """Mark a refusal by what is refused: however a Service or a run is refused, all else goes on."""
    try:
        yield
    except Refused as error:
        error.part = part
        raise
    except (api.ConflictError, api.NotFoundError):
        # It is another one now, and is looked at again.
        raise
    except api.APIError as error:
        if part is Part.WORKLOAD:
            raise
        told = refused(error)
        reason = _OF_SERVICES.get(told.reason, told.reason) if part is Part.SERVICE else told.reason
        raise Refused(reason, str(told), retry_seconds=told.retry_seconds, part=part) from error


def _as_it_was(uid: str, version: int) -> dict[str, str]:
    """Return the conditions of a patch: this object, and nothing written to it since."""
    return {"uid": uid, "resourceVersion": str(version)}


def _is_leaving(found: api.Json, manifest: actions.Manifest) -> bool:
    """Return whether an object is being deleted, or is to be: its DLJob had this name, and is another one."""
    if "deletionTimestamp" in found["metadata"]:
        return True
    wanted = manifest["metadata"]["ownerReferences"][0]
    owners = (one for one in found["metadata"].get("ownerReferences") or () if one.get("controller"))
    return any(all(one.get(key) == wanted[key] for key in ("apiVersion", "kind", "name")) for one in owners)


def refused(error: api.APIError) -> Refused:
    """Return what a refusal means: another template is needed, or patience."""
    message = str(error)
    if isinstance(error, api.InvalidError):
        return Refused(
            reasons.INVALID_TEMPLATE,
            f"the API server refuses it: {message}: correct the DLJob",
            # A policy or a webhook may have said so, and may be changed.
            retry_seconds=INVALID_RETRY_SECONDS,
        )
    if setbacks.is_of_quota(message):
        return Refused(reasons.QUOTA_EXCEEDED, message, retry_seconds=QUOTA_RETRY_SECONDS)
    return Refused(reasons.CREATION_FORBIDDEN, message, retry_seconds=QUOTA_RETRY_SECONDS)


def event(key: Key, action: actions.EmitEvent, now: datetime) -> api.Json:
    """Return a core/v1 Event about the DLJob; its name is the same whenever the same is told."""
    digest = hashlib.sha256(action.identity.encode()).hexdigest()[:16]
    time = conditions.timestamp(now)
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": f"{key.name}.{digest}", "namespace": key.namespace},
        "involvedObject": {
            "apiVersion": names.API_VERSION,
            "kind": "DLJob",
            "namespace": key.namespace,
            "name": key.name,
            "uid": action.uid,
        },
        "type": action.type,
        "reason": action.reason,
        "message": action.message[: api.MAX_MESSAGE],
        "firstTimestamp": time,
        "lastTimestamp": time,
        "count": 1,
        "source": {"component": labels.FIELD_MANAGER},
        "reportingComponent": labels.FIELD_MANAGER,
        "reportingInstance": labels.FIELD_MANAGER,
    }
