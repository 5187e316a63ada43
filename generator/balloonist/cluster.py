"""Reading from a Kubernetes cluster, through the official client. KUBECONFIG and contexts work as in kubectl."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from typing import Any, Final

from balloonist import livepods
from balloonist.layout import Fleet
from balloonist.livepods import Container, Live, LivePod
from balloonist.problem import ProblemError, problem

_PAGE: Final = 500
_TIMEOUT: Final = (10, 60)
"""Seconds to connect and to wait for an answer."""


def pods(context: str | None = None) -> tuple[LivePod, ...]:
    """Every pod that is on a node and has not ended; raises :class:`ProblemError` with what the cluster said."""
    from kubernetes import client, config  # noqa: PLC0415 - takes a second to load
    from kubernetes.config.config_exception import ConfigException  # noqa: PLC0415
    from urllib3.exceptions import HTTPError  # noqa: PLC0415

    try:
        # read here: the client itself looks at KUBECONFIG only when it is imported
        config.load_kube_config(config_file=os.environ.get("KUBECONFIG") or None, context=context)  # type: ignore[no-untyped-call]
        settings = client.Configuration.get_default_copy()
        settings.retries = 1
        api = client.CoreV1Api(client.ApiClient(settings))
        return tuple(_live(item) for page in _pages(api) for item in page if _counts(item))
    except ConfigException as error:
        raise problem("kubeconfig", "", str(error).strip(), "set KUBECONFIG or --context as for kubectl") from None
    except client.ApiException as error:
        raise _refused(error) from None
    except (HTTPError, OSError) as error:
        reason = getattr(error, "reason", None) or error
        raise problem("cluster", "", f"cannot be reached: {reason}", "is the API server of the context up?") from None


def live(context: str | None, fleet: Fleet) -> Live:
    """What runs on the nodes of a layout now; raises as :func:`pods` does."""
    threads = {node.topology.node: node.topology.threads_per_core for node in fleet.nodes}
    return livepods.read(pods(context), fleet.names, threads)


def _pages(api: Any) -> Iterator[list[Mapping[str, Any]]]:
    token: str | None = None
    while True:
        answer = api.list_pod_for_all_namespaces(
            limit=_PAGE, _continue=token, _request_timeout=_TIMEOUT, _preload_content=False
        )
        document = json.loads(answer.data)
        yield document.get("items") or []
        token = (document.get("metadata") or {}).get("continue")
        if not token:
            return


def _refused(error: Any) -> ProblemError:
    meanings = {
        401: ("the cluster does not know who asks", "log in, or choose another --context"),
        403: (
            "listing pods in all namespaces is not allowed",
            'the rule {apiGroups: [""], resources: [pods], verbs: [list]}',
        ),
    }
    message, hint = meanings.get(
        error.status, (f"the cluster answered {error.status} {error.reason}", "try again later")
    )
    return problem("cluster", "", message, hint)


def _counts(item: Mapping[str, Any]) -> bool:
    return bool(item["spec"].get("nodeName")) and item.get("status", {}).get("phase") not in ("Succeeded", "Failed")


def _live(item: Mapping[str, Any]) -> LivePod:
    metadata, spec = item["metadata"], item["spec"]
    init = [
        Container(one["name"], _milli(one), init=one.get("restartPolicy") != "Always")
        for one in spec.get("initContainers") or ()
    ]
    return LivePod(
        node=spec["nodeName"],
        namespace=metadata["namespace"],
        name=metadata["name"],
        annotations=metadata.get("annotations") or {},
        containers=(*init, *(Container(one["name"], _milli(one)) for one in spec["containers"])),
        overhead_milli=_quantity((spec.get("overhead") or {}).get("cpu", "0")),
    )


def _milli(container: Mapping[str, Any]) -> int:
    resources = container.get("resources") or {}
    return _quantity((resources.get("requests") or {}).get("cpu", "0"))


def _quantity(text: str) -> int:
    from kubernetes.utils.quantity import parse_quantity  # noqa: PLC0415

    return int(-(-parse_quantity(text) * 1000 // 1))  # type: ignore[no-untyped-call]
