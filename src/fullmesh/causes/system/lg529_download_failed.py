"""A model or file cannot be downloaded

The program could not download a file ({detail}). The node has no route to the internet, a proxy is
missing, a certificate is not trusted, the file is not in the local cache, or the account has no
access to it (gated). 429 means too many requests: all ranks download at once.

**Place:** the network of the node of this log

**Prove:** on that node, run `curl -sI https://huggingface.co` and `env | grep -i proxy`

**Fix:** Download the files once to a path that all nodes share, and set HF_HUB_OFFLINE=1. Or set
the proxy, HF_ENDPOINT or HF_TOKEN on every node. A local path must exist on every node.

**Source:** huggingface/kernels#640, read: huggingface_hub and transformers
"""

from __future__ import annotations

from fullmesh.causes.engine import Explains
from fullmesh.causes.logs import RANK_FAILURE_EFFECTS, LogCause, Pattern

CAUSE = LogCause(
    "LG-529",
    __doc__,
    examples=("OSError: We couldn't connect to 'https://huggingface.co' to load the files",),
    patterns=(
        Pattern(
            "couldn't connect to 'http", r"(?P<detail>We couldn't connect to 'https?://[^']{1,80}')"
        ),
        Pattern(
            "offline mode is enabled",
            r"(?P<detail>Cannot reach https?://[\w.-]{1,80})\S{0,400}: offline mode is enabled",
        ),
        Pattern(
            "outgoing traffic has been disabled",
            r"(?P<detail>outgoing traffic has been disabled)",
        ),
        Pattern(
            "HfHubHTTPError",
            r"HfHubHTTPError: (?P<detail>\d{3} (?:Client|Server) Error: ?[\w -]{0,40})",
        ),
        Pattern(
            " Server Error: ",
            r"(?P<detail>5\d\d Server Error: [\w -]{3,40} for url: https?://[\w.-]{1,80})",
        ),
        Pattern("LocalEntryNotFoundError", r"(?P<detail>LocalEntryNotFoundError): "),
        Pattern("GatedRepoError", r"(?P<detail>GatedRepoError): "),
        Pattern("access a gated repo", r"(?P<detail>trying to access a gated repo)"),
        Pattern(
            "is not a valid model identifier listed",
            r"OSError: (?P<detail>\S{1,120} is not a local folder)",
        ),
        Pattern("Unable to locate credentials", r"(?P<detail>Unable to locate credentials)"),
        Pattern("Cannot access gated repo", r"(?P<detail>Cannot access gated repo)"),
        Pattern("must have access to it", r"(?P<detail>Access to \w{5,7} \S{1,120} is restricted)"),
        Pattern("RepositoryNotFoundError", r"(?P<detail>RepositoryNotFoundError): "),
        Pattern(
            "CERTIFICATE_VERIFY_FAILED",
            r"\w{3,20}Error\b.{0,400}(?P<detail>CERTIFICATE_VERIFY_FAILED)",
        ),
        Pattern(
            "Can't load ",
            r"(?P<detail>Can't load (?:the )?(?:tokenizer|model|config\w*|feature extractor|\w{0,20} ?processor)"
            r" (?:for|of) '[^']{1,120}')",
        ),
        Pattern(
            "HTTP Error 429 thrown",
            r"(?P<detail>HTTP Error 429 thrown while requesting \w{3,7} https?://[\w.-]{1,80})",
        ),
        Pattern(
            "429 Client Error",
            r"(?P<detail>429 Client Error: Too Many Requests for url: https?://[\w.-]{1,80})",
        ),
        Pattern(
            "Max retries exceeded with url",
            (
                r"(?:requests|urllib3|httpx|huggingface_hub)[\w.]{1,60}(?:Error|Timeout): .{0,40}?"
                r"\w{1,40}\(host=\\?'(?P<detail>(?:[\w-]{1,60}\.){1,6}[a-z]{2,10})\\?'"
            ),
        ),
        Pattern("connect to the Hub", r"(?P<detail>Couldn't connect to the Hub)"),
        Pattern(
            "Read timed out",
            r"(?:Timeout|Error): HTTPSConnectionPool\(host='(?P<detail>[\w.-]{1,80})'",
        ),
        Pattern(
            " Client Error: ",
            r"HTTPError: (?P<detail>40[13] Client Error: \w{1,20}(?: for url: https?://[\w.-]{1,80})?)",
        ),
        # Python's urllib, aiohttp, and the clients of object stores
        Pattern("<urlopen error ", r"URLError: (?P<detail><urlopen error [^>]{1,100}>)"),
        Pattern(": HTTP Error ", r"HTTPError: (?P<detail>HTTP Error [45]\d\d: [\w -]{2,40})"),
        Pattern(
            "Network is unreachable",
            r"\b(?:httpx|httpcore|requests|urllib3)[\w.]{1,40}: (?P<detail>\[Errno 101\] Network is unreachable)",
        ),
        Pattern(
            "Cannot connect to host ",
            r"(?P<detail>Cannot connect to host (?:[\w-]{1,60}\.){1,6}[a-z]{2,10}:443)",
        ),
        Pattern(
            "botocore.exceptions.",
            r"botocore\.exceptions\.\w{1,60}: (?P<detail>(?:An error occurred \(\w{1,40}\)|Could not connect to"
            r" the endpoint URL|Connect timeout on endpoint URL|Unable to locate)[^\n]{0,80})",
        ),
        Pattern(
            "default credentials were not found",
            r"(?P<detail>[Dd]efault credentials were not found)",
        ),
        Pattern(
            "from versions: none",
            r"(?P<detail>Could not find a version that satisfies .{3,120})\(from",
        ),
        Pattern(
            "unable to access 'http", r"fatal: (?P<detail>unable to access 'https?://[^']{1,120}')"
        ),
        Pattern(
            "Couldn't reach ", r"rror: (?P<detail>Couldn't reach \S{1,160})(?: on the Hub| \()"
        ),
        Pattern(
            "downloading or loading vocab", r"(?P<detail>error downloading or loading vocab file)"
        ),
        Pattern(
            "Consistency check failed",
            r"rror: (?P<detail>Consistency check failed: file should be of size)",
        ),
        Pattern(
            "certificate verify failed",
            r"(?:rror|ailed)\b.{0,400}(?P<detail>certificate verify failed)",
        ),
        Pattern(
            "UNEXPECTED_EOF_WHILE_READING",
            r"SSLError\b.{0,400}(?P<detail>UNEXPECTED_EOF_WHILE_READING)",
        ),
        Pattern("CAS service error", r"(?P<detail>CAS service error)"),
        Pattern("Invalid user token", r"rror: (?P<detail>Invalid user token)"),
        Pattern(
            "Not Found for url: https://huggingface.co",
            r"(?P<detail>(?:Repository|Entry|Revision) Not Found for url: https://huggingface\.co/\S{1,120})",
        ),
        Pattern(
            "in the cached path", r"(?P<detail>cannot find the requested files in the cached path)"
        ),
        Pattern(
            "on the Hub or cannot be accessed",
            r"(?P<detail>Dataset '\S{1,120}' doesn't exist on the Hub or cannot be accessed)",
        ),
        Pattern("403 Forbidden: Authorization", r"(?P<detail>403 Forbidden: Authorization error)"),
        Pattern("AccessDeniedException: 403", r"(?P<detail>AccessDeniedException: 403)"),
        Pattern(
            "fatal error: An error occurred (",
            r"fatal error: (?P<detail>An error occurred \(\w{1,40}\) when calling the \w{1,40} operation)",
        ),
        Pattern(
            "curl: (",
            (
                r"curl: (?P<detail>\((?:28|35|56|60)\) (?!.{0,60}(?:localhost|\b127\.|\b10\.|\b192\.168\.))"
                r"[^\n]{5,120})"
            ),
        ),
        Pattern("IncompleteRead(", r"rror: .{0,40}Connection broken: (?P<detail>IncompleteRead)"),
        Pattern("FSTimeoutError", r"(?P<detail>fsspec\.exceptions\.FSTimeoutError)"),
    ),
    explains=(Explains(RANK_FAILURE_EFFECTS),),
    yields=True,
    survivable=True,
    weight=76,
)
