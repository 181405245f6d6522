"""Recognize error lines without a rule: exceptions, crashes, NCCL WARN, log levels and plain words for a failure."""

from __future__ import annotations

import re
from enum import IntEnum

TRACEBACK = "Traceback (most recent call last)"
LAST_ERROR = "Last error:"
# a plain search for these is cheap, and a line without any of them is not an error line
NEEDLES = (
    TRACEBACK,
    LAST_ERROR,
    "NCCL WARN",
    "rror: ",
    "atal: ",
    "Exception: ",
    "ERROR",
    "FATAL",
    "CRITICAL",
    "ignal",
    "egmentation fault",
    "segfault at ",
    "general protection",
    "core dumped",
    "terminate called",
    "exit code",
    "efused",
    "ailed",
    "panic",
    "imed out",
    "No route to host",
    "error occurred",
    ':"error"',
    "BAD TERMINATION",
    "Assertion error ",
    "Assertion failed",
)
# text that rare needles share: a block without it has none of them
GATED_NEEDLES = {"level=": ("level=error", "level=fatal"), "MPI_A": ("MPI_ABORT", "MPI_Abort(")}
SEEN = 1600  # characters of a line to examine


class ErrorKind(IntEnum):
    """The kinds of error lines, the strongest first."""

    CRASH = 0
    EXCEPTION = 1
    REASON = 2  # the line after "Last error:"
    WARNING = 3  # NCCL has no other level for errors
    LEVEL = 4
    WORD = 5
    SIGN = 6  # it counts only if the log ends soon after it and has nothing stronger


LOW_LEVEL = re.compile(
    r"(?<![\w=-])(?:INFO|DEBUG|TRACE|NOTICE|WARN|WARNING|\w{0,40}Warning:|warning:|info:|debug:)(?![\w-])"
    r"|(?<![\w-])(?:level|lvl|severity)\W{1,3}(?i:info|debug|trace|warn|warning)\b"
    # glog, Ray and c10d write the level as one letter
    r"|(?<![\w.])[IWDV](?:\d{3,4}(?= \d\d:)|(?= \d+ \d+\])|(?= \w{1,40}\.cpp:))"
)
HIGH_LEVEL = re.compile(
    r"(?<![\w=-])(?<!level )(?:ERROR|FATAL|CRITICAL|PANIC)(?![\w-])|==ERROR: "
    r"|\|CCL_ERROR\||(?<![\w-])(?:level|lvl|severity)\W{1,3}(?i:error|err|fatal|panic|crit|critical)\b(?=\W{0,2}\s*[,}\w])"
    r"|(?<![\w.])[EF](?:\d{3,4}(?= \d\d:)|(?= \d+ \d+\])|(?= \w{1,40}\.cpp:))"
    r"|(?<![\w-])(?:[Ff]atal )?[Ee]rror(?:: (?!-?\d+\.\d)|\])|(?<!non-)(?<!\w)[Ff]atal(?: {0,4}: | error| exception)"
    r"|^\W{0,4}(?:\w+: )?Error (?:#?\d{1,5}|\w+ing (?:\w+ ){0,3}\w+): \S"
)
EXCEPTION = re.compile(
    # a bare "Error:" is a level: kubelet and commands write it
    r"(?:^|[\s\]:|)(\"'])(?!Error: )(?:[A-Za-z_]\w{0,60}\.){0,10}(?:[A-Z_]\w{0,60})?"
    r"(?:Error|Exception|Interrupt|Expired)"
    r"(?:\([\w.]{1,60}\))?: \S"
    # an assertion of C++ or of C
    r"|^Assertion (?:error |failed: )\S"
    # of a module of exceptions
    r"|^(?:[a-z_]\w{0,60}\.){0,10}(?:errors?|_?exceptions?|exc|zipfile)\.[A-Z]\w{0,60}: \S"
    # of a class whose name says it
    r"|^(?:[a-z_]\w{0,60}\.){1,10}[A-Z]\w{0,40}?(?:Broken|Mismatch|NotFound|Unavailable|Denied|Refused|Exhausted|Lost|Conflict"
    r"|Timeout|Failed|Failure|Killed|Died|Closed|Enabled)\w{0,20}: \S|^Broken\w{2,20}Pool: \S"
)
ENDS_TRACEBACK = re.compile(r"[A-Za-z_][\w.]{0,200}(?:\([\w., ']{0,80}\))?(?:: |:?\s*$)")
CRASH = re.compile(
    r"Fatal Python error: |Caught signal \d+ \(|\*\*\* stack smashing detected \*\*\*"
    r"|\*\*\* SIG[A-Z]+ received|\bSignal: \w[\w ]+ \(\d+\)|\(core dumped\)|segfault at [0-9a-f]|general protection"
    r"|(?:task|tasks) [\d,-]+: (?:Segmentation fault|Bus error|Aborted|Killed|Illegal instruction|Floating point)"
    r"|\bline \d+: +\d+ (?:Segmentation fault|Bus error|Aborted|Killed|Illegal instruction)"
    r"|terminate called after throwing|exited on signal \d+|double free or corruption|free\(\): invalid"
    r"|(?:died|exited|terminated|ended) .{0,60}\bexit code:? ?-\d|\bkilled by signal"
    r"|\bthread '[^']{0,80}' .{0,20}panicked at |\bKernel panic\b|==ERROR: \w{1,30}Sanitizer"
    r"|\bMPI_ABORT was invoked|\bcalled MPI_Abort\(|\bBAD TERMINATION\b"
)
WORD = re.compile(
    r"(?<![\w-])(?<!\b0 )(?:[Ff]ailed|[Rr]efused|[Tt]imed out|No route to host|error occurred)\b(?![\"']?\s*[=:]\s*0\b)"
    r"|^panic: |\b(?:ORTE|PRTE|PMIX)_ERROR_LOG: |\bPMIX ERROR: "
    r"|\b(?:died|exited|terminated|ended)\b.{0,60}\bexit code:? ?-?[1-9]"
)
# the program itself says that it continues
GOES_ON = re.compile(
    r"(?i)\bretr(?:y|ies|ying)\b|\bwill (?:be )?(?:retried|ignored|skipped|used?\b|not be)|\bdlvsym\b"
    r"|\bfall(?:s|ing)? ?back\b|\bdefault(?:s|ing) to\b|\bignor(?:ed|ing)\b|\bskipp(?:ed|ing)\b|\bno errors?\b"
    r"|\bwithout errors?\b|\b(?:0|zero) errors?\b|\berrors?\b\W{0,3}(?:0|none|null|false|\[\]|\{\})\s*(?:[,;}\]]|$)"
    r"|\bwhich can lead to\b|exception ignored in"
    r"|unable to register cu\w+ (?:factory|plugin)|already (?:been )?registered"
    r"|failed to open libibverbs|pip's dependency resolver|metrics exporter agent|^\W*wandb:|\bexcept\b"
)
GIVES_UP = re.compile(
    r"(?i)exceeded|exhausted|giv(?:e|es|ing|en) up|after \d+ (?:retries|tries|attempts)|no more|retry count"
)
# lines that only repeat another line in general words: torchrun, subprocess, NCCL's proxy, the watchdog
ECHO = re.compile(
    r"ChildFailedError|CalledProcessError|first observed failure|OTHER_FAILURES|To avoid data inconsistency"
    r"|\bnccl\w{1,30}Error: |NCCL WARN \[(?:Proxy Service|Service thread)|'c10::Dist(?:Backend|Network)Error'"
    r"|Engine core initialization failed|WorkerProc (?:initialization failed|failed to start)"
    r"|EngineCore failed to start"
    r"|Executor failed\.|EngineCore (?:encountered a fatal|hit an exception)|Error executing job with overrides"
    r"|Received sigquit from a child process|\bscheduler is dead\b|more processes exited with non-zero status"
    # Open MPI's heading, whose next line names the signal
    r"|\*\*\* Process received signal \*\*\*"
    r"|detected by watchdog at work|Timeout at NCCL work: "
    r"|Stack trace of the failed collective"
    r"|Some NCCL operations have failed or timed out|First PG on this rank to signal"
    r"|flight recorder dump signal|Received a dump signal due to"
    r"|preparing to dump debug info|failed with error code|\bexits with return code|Test NCCL failure"
)
# a line of source code in a traceback
SOURCE_LINE = re.compile(r"(?:^|\s)raise [A-Za-z_][\w.]{0,80}\(")
# exceptions that only carry the error of another process, or of a call that they wrap
WRAPPER = re.compile(
    r"\b(?:RayTaskError|ActorDiedError|ActorUnavailableError|WorkerCrashedError|EngineDeadError)\b"
    r"|Caught \w{1,60} in (?:DataLoader worker process|replica) "
    r"|\bProcessRaisedException\b|\bCheckpointException ranks:"
)
# one of the program's own errors: it is not about the network, another process or the machine
OWN_TYPE = re.compile(
    r"(?:Value|ZeroDivision|FloatingPoint|Unicode(?:De|En)code|NotImplemented|ModuleNotFound|Import"
    r"|UnidentifiedImage|DatasetGeneration|Scanner|Parser|Inductor|Comm|Usage|File(?:NotFound|Exists)"
    r"|(?:Not|Is)ADirectory|Permission|Name|UnboundLocal|Attribute|Type|\w{0,40}Key|Index|Lookup"
    r"|Assertion|Syntax|Indentation|Recursion|Overflow|JSONDecode|Unpickling|\w{0,40}Validation|Safetensors?"
    r"|\w{0,40}Config\w{0,20}|Argument)Error$"
    r"|(?:Misconfiguration|Instantiation|ConfigComposition|\w{0,40}Validation)Exception$"
    r"|^(?:UnsupportedOperation|Missing\w{0,40}Value|BackendCompilerFailed|Arrow\w{1,40})$"
)
OWN_MESSAGE = re.compile(
    r"(?i)\bshapes?\b|size of tensor|size mismatch|\bdimensions?\b|\bdtypes?\b|\bdivisible\b|state_dict"
    r"|\b(?:must|should) (?:match|be)\b|\bexpected\b|\bnot implemented for\b|\b(?:is|are) required\b"
    r"|does not require grad|\bbroadcast\b|\bdisagreement between\b|in-?place operation|\bsame device\b"
    r"|did(?: not|n't) match|\bnan\b|\bloss scale\b"
    r"|\bunknown (?:option|key|model|optimizer)|\bmissing (?:key|argument|field)|\bnot (?:a )?valid\b"
)
# the error of another process, of the network or of the machine, which such an exception may carry
NOT_OWN = re.compile(
    r"(?i)(?<![\w/])(?:nccl|rccl|hccl|gloo|c10d|tcpstore|ucx|nvshmem|ray)(?![\w/])|\bnccl\w*error"
    r"|\bsockets?\b|\btime[sd]?[ -]?outs?\b|\bconnect(?:ion|ed|ing)?\b|\brefused\b|reset by peer|broken pipe"
    r"|unreachable|\bpeers?\b|rendezvous|watchdog|(?:CUDA|HIP|cuBLAS|cuDNN)\w{0,20} (?:error|failure)|CUBLAS_STATUS"
    r"|out of memory|\bdriver\b|see root cause|\bdied\b|\bkilled\b|exited unexpectedly|no space left|\[Errno \d"
    r"|cannot allocate|\bhost(?:name)?\b|operation not permitted|: undefined\s*$"
)
NAMED = re.compile(
    r"(?:^|[\s\]:|)(\"'])(?P<error>(?:[A-Za-z_]\w{0,60}\.){0,10}(?:[A-Z_]\w{0,60})?(?:Error|Exception)"
    r"|(?:[a-z_]\w{0,60}\.){1,10}(?:Missing\w{0,40}Value|BackendCompilerFailed|Arrow[A-Z]\w{0,40}))"
    r": (?P<message>\S.{0,400})"
)
# exceptions that a program raises without a message
BARE = re.compile(
    r"^(?:\[rank\d{1,7}\]: ?)?(?P<error>AssertionError|NotImplementedError|Stop(?:Async)?Iteration|SystemExit)"
    r"(?:: (?P<message>-?[1-9]\d{0,4}))?$"
)
# argparse and click, without an exception
USAGE = re.compile(
    r"^(?:\S{1,40}:? )?(?P<error>[\w./-]{1,80}: error): (?P<message>(?:unrecognized arguments|ambiguous option"
    r"|the following arguments are required|argument \S{1,80}: ).{0,300})"
)
# a failed condition of C++ or of C, with its place
ASSERTION = re.compile(r"^(?P<error>Assertion (?:error|failed)):? (?P<message>\S.{0,400})")
# a runtime's number of an error
NUMBERED = re.compile(r"^(?P<error>\w{2,20}: Error #\d{1,5}): (?P<message>\S.{0,400})")
# Python's own words for an error, in a line at level ERROR that does not name the exception
PYTHON_TEXTS = tuple(
    (error, re.compile(rf"(?P<message>{words})"))
    for error, words in (
        ("AttributeError", r"'[\w.]{1,80}' object has no attribute '\w{1,80}'"),
        ("AttributeError", r"module '[\w.]{1,80}' has no attribute '\w{1,80}'"),
        (
            "TypeError",
            r"[\w.]{1,80}\(\) (?:missing \d+ required|got an unexpected keyword) .{5,120}",
        ),
        ("ModuleNotFoundError", r"No module named '[\w.]{1,80}'"),
        ("ImportError", r"cannot import name '\w{1,80}' from '[\w.]{1,80}'"),
        ("NameError", r"name '\w{1,80}' is not defined"),
    )
)
# Python's own words about a file, which is named
FILE_ERROR = re.compile(r"(?i)\[Errno (?:2|13|17|20|21|39)\] ?")


def parse_own_error(line: str) -> tuple[str, str] | None:
    """Return an exception of the program's own with its message. None for another process's or the machine's error."""
    for whole in (BARE, USAGE, ASSERTION, NUMBERED):
        if found := whole.match(line[:SEEN].strip()):
            return found["error"], found["message"] or "no message"
    found = NAMED.search(line[:SEEN])
    if found is None:
        return _parse_python_text(line[:SEEN])
    if is_echo(line) or WRAPPER.search(line[:SEEN]):
        return None
    error, message = found["error"], found["message"].strip()
    if NOT_OWN.search(FILE_ERROR.sub("", message)):
        return None
    kind = error.rpartition(".")[2]
    is_own = (
        OWN_TYPE.search(kind)
        or (kind in ("RuntimeError", "Exception") and OWN_MESSAGE.search(message))
        or (kind == "OSError" and FILE_ERROR.match(message))
    )
    return (error, message) if is_own else None


def _parse_python_text(line: str) -> tuple[str, str] | None:
    for error, words in PYTHON_TEXTS:
        if found := words.search(line):
            return error, found["message"].rstrip(".")
    return None


# a low-level attempt to reach a peer: harmless if the program continues after it
WAITING = re.compile(
    r"(?i)\bconnect\w*\b.{0,200}\b(?:refused|timed out|no route|unreachable|failed)|\bfailed to connect\b"
)
KINDS = (
    (ErrorKind.CRASH, CRASH),
    (ErrorKind.WARNING, re.compile("NCCL WARN")),
    (None, LOW_LEVEL),
    (ErrorKind.EXCEPTION, EXCEPTION),
    (ErrorKind.LEVEL, HIGH_LEVEL),
    (ErrorKind.WORD, WORD),
)


def classify_line(line: str) -> ErrorKind | None:
    """Return the kind of error in a line. None if there is none, or if the program continues."""
    line = line[:SEEN]
    if (
        is_echo(line)
        or SOURCE_LINE.search(line)
        or (GOES_ON.search(line) and not GIVES_UP.search(line))
    ):
        return None
    return next((kind for kind, marks in KINDS if marks.search(line)), None)


# A log's last lines are read without needles, and these words count there
SIGN = re.compile(
    r"(?i)(?<![\w-])(?:no [\w ]{1,40} (?:was|were) (?:able|found|available|detected)"
    r"|could ?n[o']t|can ?not|can't|unable to|not able to|fail(?:ed|s)?|failure|failed[a-z]+|denied"
    r"|refused|unreachable|abort(?:ed|ing|s)?|crash(?:ed|es)?|panic|corrupt(?:ed|ion)?|died|killed|lost|exceed(?:s|ed)"
    r"|not (?:found|permitted|supported|allowed|available|responding)|unsupported|incompatible|mismatch(?:ed|es)?"
    r"|is dead|times out|disconnect(?:ed)?|timed[ -]out"
    r"|time-?out (?:occurred|expired|reached|exceeded|while|waiting|after|error)"
    r"|(?:caught|due to|because of|hit|got) .{0,60}\btime-?out|does(?: not|n't) exist|no such \w+"
    r"|(?:mem\w*|illegal|invalid) (?:access|argument|device|address|instruction|fault)|out of memory|no space left"
    r"|loss (?:is|was|became|=) (?:nan|inf)"
    r"|abruptly|unknown authority|i/o timeout|(?:is|are) too open|undefined symbol|did not receive grad"
    r"|is lost|does(?: not|n't) match|not (?:compatible|reachable|recogni[sz]ed|loaded|ready)\b(?! yet)"
    r"|broken pipe|connection reset|(?:device|resource) busy|temporarily unavailable|unexpected(?:ly)?"
    r"|(?:image ?pull|crash ?loop) ?back-?off|back-off|err ?image ?pull|oom-?killed|evicted)(?![\w-])"
    r"|(?<![\w-])error(?= (?:\d+\b|in\b|at\b|code\b|while\b|when\b|during\b|from\b)|: (?!-?\d+\.\d))"
    r"|(?<![\w-])exit(?:ed|s)?(?:[ _-]with)?[ _-]?(?:code|status)\W{1,8}(?:[1-9]|-\d)|\bexited,? code=(?!exited)\w"
    r"|\b(?:CUDA|HSA_STATUS|CCL|PMIX|UCS|OMPI|MPI)_ERR(?:OR)?(?:_[A-Z]+)+\b|\b(?:cuda|hip)Error[A-Z]\w+"
    r"|(?<![\w-])already (?:in use|allocated)(?![\w-])|\bno matching \w+|\bno module named\b"
    r"|\bpage fault\b|\bptxas fatal\b|\bUncorrect\w+ \(Fatal\)|\bring \S{1,30} timeout\b"
    r"|\bE(?:NOTFOUND|CONN[A-Z]+|ADDRINUSE|HOSTUNREACH|TIMEDOUT|ACC[E]S|NOSPC|NOMEM|MFILE|PIPE)\b"
    r"|\bSignal \d{1,2} \(SIG[A-Z]+\)|^curl: \(\d|\bunrecognized option\b|\b(?:access|operation) error on \w"
    r"|^(?:\[rank\d{1,7}\]: ?)?(?:[\w.]{1,120}\.)?[A-Z]\w{2,60}(?:Error|Exception)\s*$"
    r"|\w(?:Error|Exception):\s*$|\bwatchdog[ _]timeout\b|\b[Nn]vlink error\b"
    r"|^(?:\[rank\d{1,7}\]: ?)?(?:Stop(?:Async)?Iteration|KeyboardInterrupt|SystemExit|GeneratorExit)(?:: [1-9-].*)?$"
    r"|\bCU\w{2,6}_STATUS_(?!SUCCESS)[A-Z]|\bBUG: |\bOops: |\[Hardware Error\]"
)
# a program's own words about the cause or the fix, next to its error
ADVICE = re.compile(
    r"(?i)(?<!\w)(?:hint|suggestion|solution|tip|possible (?:cause|reason)s?|likely cause): ?\S"
    r"|\bplease (?:check|make sure|ensure|verify|try|set|use|increase|reduce|install|upgrade|update|start|run)\b"
    r"|\b(?:make sure|ensure) (?:that|the|your|you|to|all)\b|\bcheck (?:that|if|whether|your|the)\b"
    r"|\b(?:try|consider) (?:to|setting|using|increas\w+|reduc\w+|decreas\w+|adjust\w+|running|pass\w+|install\w+)\b"
    r"|\b(?:this|which) (?:is |error |can |may |might )?(?:be )?(?:usually|(?:most )?likely|often|probably|typically)\b"
    r"|\b(?:may|might|could|can) be (?:caused by|due to)\b|\bdid you (?:forget|mean|run)\b"
)
# words that come with every error of a kind
NO_ADVICE = re.compile(
    r"(?i)NCCL_DEBUG=|TORCH_USE_\w+_DSA|CUDA_LAUNCH_BLOCKING|To enable traceback|report (?:this|a bug|the issue)"
    r"|TORCH_NCCL_TRACE|asynchronously reported|Set the environment variable HYDRA"
)


def is_advice(line: str) -> bool:
    """Return whether a program names the cause or the fix in a line next to its error."""
    return bool(ADVICE.search(line[:SEEN])) and not NO_ADVICE.search(line[:SEEN])


CLOCK = re.compile(
    r"(?:(?P<day>\d{4}-\d\d-\d\d)[T ])?(?P<time>(?<![\d:])[0-2]\d:[0-5]\d:[0-5]\d(?:[.,]\d{1,9})?)(?![\d:])"
)


def parse_clock(text: str) -> str:
    """Return the time of a line as it is written, for sorting. An empty text if it has none."""
    found = CLOCK.search(text)
    return f"{found['day'] or ''} {found['time']}".replace(",", ".").strip() if found else ""


# programs that suspect a hang, and NCCL's return codes, have a low level
SIGN_AT_ANY_LEVEL = re.compile(
    r"(?i)\bsuspects? a (?:hang|deadlock)|\b(?:possible|potential(?:ly)?) (?:hang|deadlock)|\bdeadlock(?:ed)?\b"
    r"|\bmak(?:e|ing) (?:no )?progress\b|\bstalled (?:ops|ranks)|\bblocked for more than \d"
    r"|\bNCCL INFO (?:[\w/.-]{1,80}:\d+ -> [1-9](?! \w)|.{0,200}\bexceeds\b)"
)
# signs that other words of the line do not weaken
CERTAIN_SIGN = re.compile(
    r": command not found\s*$|\bfatal {0,4}: |^\W{0,4}Error \w+ing .{1,80}: \S"
)
FAILS_NOT = re.compile(
    r"(?i)(?<![\w.])(?:0|no|zero|any|if|without) (?:\w+ )?(?:error|fail|crash|mismatch|timeout)|max_|tolera"
    r"|\b(?:trying|using|continuing)\b|\w[\"']: false\b"
    r"|(?:error|fail|crash|time|los|den|abort|kill)\w{0,9}[\"']?\s*[=:]\s*0\b"
)


def is_sign_of_error(line: str) -> bool:
    """Return whether one of the last lines of a log may be an error, if nothing better is in the log."""
    line = line[:SEEN]
    if SOURCE_LINE.search(line):
        return False
    if SIGN_AT_ANY_LEVEL.search(line) or CERTAIN_SIGN.search(line) or is_echo(line):
        return True
    is_harmless = LOW_LEVEL.search(line) or GOES_ON.search(line) or FAILS_NOT.search(line)
    return not is_harmless and bool(SIGN.search(line))


def is_failed_attempt(line: str) -> bool:
    """Return whether a line reports a failed attempt to reach a peer."""
    # NCCL logs at level WARN when it gives up
    return bool(WAITING.search(line[:SEEN])) and "NCCL INFO" not in line


def is_echo(line: str) -> bool:
    """Return whether a line only repeats in general words that another process or call failed."""
    return bool(ECHO.search(line[:SEEN]))


def is_wrapper(line: str) -> bool:
    """Return whether an exception carries the error of another process."""
    return bool(WRAPPER.search(line[:SEEN]))


# consequences of another process's end
CONSEQUENCE = re.compile(
    r"(?i)reset by peer|broken pipe|connection (?:was )?(?:closed|refused|aborted|reset)|remote (?:peer|process)"
    r"|recvValue failed|\bnot called before program exit|\bDist(?:Backend|Network|Store)Error\b|heartbeat"
    r"|\bactor died\b|\bworker (?:\w+ ){0,3}died\b|\bexit(?:ed)?(?: with)? ?code\b|\bexitcode\b|^Aborted|cancel(?:l)?ed"
)


def is_consequence(line: str) -> bool:
    """Return whether an error usually follows from the end of another process."""
    return is_wrapper(line) or bool(CONSEQUENCE.search(line[:SEEN]))


# a line whose next one has the message
ANNOUNCES = re.compile(
    r":\s*$|\bvalidation errors? for \w+\s*$|^terminate called after throwing|\bHCCL error in: \S+\s*$"
)
LINE_PREFIX = re.compile(
    r"^(?:\[rank\d{1,7}\]:|\(\w[^()\n]{0,60}pid=\d{1,9}[^()\n]{0,40}\)"
    r"|(?:ERROR|CRITICAL) \d\d-\d\d [\d:]{8} \[[\w./]{1,80}:\d{1,6}\]|\s|what\(\):)+"
)
MOST_MORE = 200  # characters


def find_announced_text(line: str, following: str) -> str:
    """Return the message in the line after one that only announces it, else an empty text."""
    if not ANNOUNCES.search(line[:SEEN]) or TRACEBACK in following:
        return ""
    return LINE_PREFIX.sub("", following[:SEEN]).strip()[:MOST_MORE]


# a line of a traceback that says where the error is
FRAME = re.compile(
    r"File \"(?P<file>[^\"\n]{1,400})\", line (?P<line>\d{1,7}), in (?P<name>[^\s,]{1,120})"
)
FOREIGN_FILE = re.compile(
    r"/(?:site|dist)-packages/|/lib/python\d|^<|/bin/(?:torchrun|accelerate|deepspeed)$"
)


def parse_frame(line: str) -> tuple[str, bool] | None:
    """Return the place that a line of a traceback names, and whether it is in the program's own files."""
    found = FRAME.search(line[:SEEN])
    if found is None:
        return None
    name = found["file"].rpartition("/")[2] if FOREIGN_FILE.search(found["file"]) else found["file"]
    return f"{name}:{found['line']} in {found['name']}", not FOREIGN_FILE.search(found["file"])


def is_caught_exception(line: str) -> bool:
    """Return whether a line before a traceback says that the program caught the exception and only reports it."""
    return bool(LOW_LEVEL.search(line) or HIGH_LEVEL.search(line) or "Exception in thread" in line)


# The job's own messages about success. Python writes stdout after a traceback if both go to one file, so a line about
# one epoch or step proves nothing.
FINISHED_NEEDLES = ("ucce", "inish", "omplete", "train_runtime", " reached", " done")
FINISHED = re.compile(
    r"(?i)\b(?:training|trainer|train(?:_\w+)?|job|run|fit|fine-?tuning|benchmark|worker group|all ranks)\b.{0,60}?"
    r"\b(?:finished|completed?|succeeded|successful(?:ly)?|done)\b|\bexits? successfully\b"
    r"|\b(?:finished|completed|done) (?:training|successfully)\b|\bfit`? stopped: .{0,60} reached|'train_runtime':"
)
UNFINISHED = re.compile(
    r"(?i)epoch|step\b|\bnot\b|fail|error|abort|cancel|unsuccess|before|until|when|\bif\b|0 completed"
)
PROGRESS_NEEDLES = ("loss", "/s", "/it", "poch ")
PROGRESS = re.compile(
    r"(?i)\bloss\b\W{1,6}\d|\d ?(?:it/s|s/it|tokens/s|samples/s)|\bepochs?\b\W{0,3}\d+.{0,80}\d"
)


READY = re.compile(
    r"Init COMPLETE|Connected all (?:rings|trees)|Application startup complete|Uvicorn running on|Ray runtime started"
    r"|ready to roll|Started container |Avg bus bandwidth"
    r"|Out of bounds values : 0 OK|All distributed processes registered"
)


def is_ready(line: str) -> bool:
    """Return whether a line says that a program has started, so that it survived the lines before."""
    return bool(READY.search(line))


def is_job_finished(line: str) -> bool:
    """Return whether a line says that the job succeeded."""
    return bool(FINISHED.search(line)) and not UNFINISHED.search(line)


def is_training_progress(line: str) -> bool:
    """Return whether a line reports a step of training."""
    return bool(PROGRESS.search(line)) and "rror" not in line


# Libraries of which explain-log knows few errors -> the pattern of their lines
LIBRARIES = {
    "HCCL (Ascend)": re.compile(r"\bHCCL|\bHccl|\bhccl|\bE[IJ]\d{4}\b|torch_npu|\bACL\b"),
    "NVSHMEM": re.compile(r"(?i)nvshmem"),
    "Horovod": re.compile(r"(?i)horovod"),
    "SHARP": re.compile(r"\bSHARP\b|\bsharp_"),
    "pyxis/enroot": re.compile(r"\bpyxis\b|\benroot\b"),
    "Open MPI": re.compile(
        r"\bbtl: |\bORTE|\bPMI[Xx]|\bmpirun\b|\bmpiexec\b|\bprterun\b|\bopal_|\bompi_|\bMPI_"
    ),
    "UCX": re.compile(r"\bUCX\b|\buc[pst]_"),
    "UCC": re.compile(r"\bUCC\b|\bucc_"),
    "oneCCL": re.compile(r"(?i)\boneccl\b|\bCCL_ERROR\b"),
    "libfabric/aws-ofi-nccl": re.compile(r"\bNET/OFI\b|\blibfabric\b|\bfi_\w+\("),
}


def find_libraries(lines: list[str]) -> list[str]:
    """Return the libraries of LIBRARIES that wrote the lines, in the order of the table."""
    return [name for name, marks in LIBRARIES.items() if any(marks.search(line) for line in lines)]
