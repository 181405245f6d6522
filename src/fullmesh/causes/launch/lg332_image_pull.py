"""The container image cannot be pulled

A node could not get the image ({detail}): its name or tag is wrong, the registry needs a login, or
the node cannot reach the registry.

**Place:** the node that pulls, and its registry

**Prove:** on that node: crictl pull IMAGE (or docker pull IMAGE)

**Fix:** Correct the name, add the pull secret, or load the image on every node before the job.

**Source:** read: kubelet's and containerd's messages
"""

from __future__ import annotations

from collections.abc import Iterator

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import Fact, LogCause, LogEvidence, LogFinding, Pattern, RecordedLog

SHOWN = tuple(
    Fact("image missing", pattern)
    for pattern in (
        Pattern("ailed to pull image", r"(?P<detail>[Ff]ailed to pull image \S{1,120})"),
        Pattern("pull access denied for ", r"(?P<detail>pull access denied for \S{1,120}?),? "),
        Pattern("manifest for ", r"(?P<detail>manifest for \S{1,120} not found)"),
        Pattern("no matching manifest for ", r"(?P<detail>no matching manifest for \S{1,60})"),
        Pattern(
            'response from daemon: Get "http',
            r'response from daemon: Get "(?P<detail>https?://[\w.:-]{1,80})',
        ),
        Pattern("toomanyrequests", r"(?P<detail>toomanyrequests: [\w ]{5,80})"),
        Pattern(
            "returned error code: 40",
            r"URL (?P<detail>https://\S{1,120} returned error code: 40[134])",
        ),
        Pattern("nvalid reference format", r"(?P<detail>[Ii]nvalid reference format)"),
        Pattern("ErrImagePull", r"(?P<detail>ErrImagePull)"),
        Pattern("ImagePullBackOff", r"(?P<detail>ImagePullBackOff)"),
    )
)
DONE = Fact("image missing, in the end", Pattern("uccessfully pulled image"))


def find_missing_image(evidence: LogEvidence) -> Iterator[LogFinding]:
    """Find an image that was not pulled, unless the same log shows that it was."""
    known = evidence.facts
    done = {line.file for _, line in known.of(DONE.name)}
    found = [(values[0], line) for values, line in known.of(SHOWN[0].name) if line.file not in done]
    if found:
        yield CAUSE.make_finding({"detail": found[0][0]}, [line for _, line in found])


CAUSE = LogCause(
    "LG-332",
    __doc__,
    find=find_missing_image,
    facts=(*SHOWN, DONE),
    explains=(Explains(("LG-201", "LG-302", "LG-726")),),
    weight=86,
    recorded=(
        RecordedLog(
            "an image that does not exist",
            (
                'Warning  Failed  kubelet  Failed to pull image "registry.example/train:1": rpc '
                "error: code = NotFound"
            ),
        ),
    ),
)
