"""The steps and their expected results. acceptance.py runs each in its own process."""

from __future__ import annotations

import ctypes
import importlib
import json
import os
import shutil
import signal
import statistics
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

from gpu import jobs
from gpu.jobs import GpuJob
from gpu.network import NodePair
from gpu.paths import ON_NODES, ROOT

RECORDED_SMI = ROOT / "tests/unit/recorded/gpu/h100-stand-in.xml"
TOOLS = ("ip", "nft", "tc", "nsenter", "unshare", "nvidia-smi", "journalctl", "py-spy")
DUMP_SECONDS = jobs.TIMEOUT + 12.0
MOST_SAID = 600
NVML_TEXTS = {"name": "Name", "uuid": "UUID"}
BURN = {"cuda": (8192, 10.0), "cpu": (512, 1.0)}  # side of the matrices, seconds


@dataclass
class StepRun:
    """A running step.

    Attributes:
        work: the folder of the records.
        scratch: the folder of the jobs' files.
        wrong: reasons why it fails.
        numbers: figures and observations.
    """

    name: str
    work: Path
    scratch: Path
    device: str
    wrong: list[str] = field(default_factory=list)
    numbers: dict[str, Any] = field(default_factory=dict)

    @property
    def has_gpu(self) -> bool:
        """Report whether it runs on a GPU instead of stand-ins."""
        return self.device != "cpu"

    def check(self, good: bool, text: str) -> None:
        """Add a reason to ``wrong`` unless *good*."""
        if not good:
            self.wrong.append(text[:MOST_SAID])

    def keep(self, name: str, value: Any) -> None:
        """Append to a record: text, or one line of JSON that names the step."""
        text = value if isinstance(value, str) else json.dumps({"step": self.name, **value}) + "\n"
        with (self.work / name).open("a") as stream:
            stream.write(text)


def run_tool(*words: str) -> tuple[int, str]:
    """Run a program of the system; return its exit status (127 if it is missing) and output."""
    if not shutil.which(words[0]):
        return 127, ""
    done = subprocess.run(words, check=False, capture_output=True, text=True, timeout=30)
    return done.returncode, done.stdout


def import_node_module(name: str) -> Any:
    """Import a module of module_utils/fullmesh."""
    return importlib.import_module(f"{ON_NODES}.{name}")


# --- the machine ---------------------------------------------------------------------------------------


def put_stand_in_smi(scratch: Path) -> None:
    """Put a FAKE nvidia-smi, which prints a recorded answer, in front of PATH."""
    path = scratch / "bin" / "nvidia-smi"
    path.parent.mkdir()
    path.write_text(f'#!/bin/sh\n[ "$*" = "-q -x" ] || exit 6\ncat "{RECORDED_SMI}"\n')
    path.chmod(0o755)
    os.environ["PATH"] = f"{path.parent}:{os.environ['PATH']}"


def find_programs_anywhere() -> None:
    """Let the readers of node facts start programs outside the system's folders, as the stand-in is."""
    run = import_node_module("facts.node").run_command

    def run_found(argv: list[str]) -> tuple[int, str]:
        found: tuple[int, str] = run([shutil.which(argv[0]) or argv[0], *argv[1:]])
        return found

    import_node_module("survey.job").run_tool = run_found
    import_node_module("facts.gpu").run_command = run_found


def read_nvml() -> dict[str, Any]:
    """Query NVIDIA's library about the same GPUs (NVML API reference, device queries)."""
    nvml = ctypes.CDLL("libnvidia-ml.so.1")

    def text(call: str, *first: Any) -> str:
        buffer = ctypes.create_string_buffer(96)
        code = getattr(nvml, call)(*first, buffer, 96)
        return buffer.value.decode() if not code else f"error {code}"

    if code := nvml.nvmlInit_v2():
        raise OSError(code, "nvmlInit_v2")
    count = ctypes.c_uint()
    nvml.nvmlDeviceGetCount_v2(ctypes.byref(count))
    cards = []
    for at in range(count.value):
        handle, memory = ctypes.c_void_p(), (ctypes.c_ulonglong * 3)()
        nvml.nvmlDeviceGetHandleByIndex_v2(at, ctypes.byref(handle))
        nvml.nvmlDeviceGetMemoryInfo(handle, memory)
        names = {key: text(f"nvmlDeviceGet{call}", handle) for key, call in NVML_TEXTS.items()}
        cards.append({**names, "memory": f"{memory[0] >> 20} MiB"})
    driver = text("nvmlSystemGetDriverVersion")
    nvml.nvmlShutdown()
    return {"driver": driver, "cards": cards}


def step_machine(run: StepRun) -> None:
    """Compare the GPU facts with NVML, and judge them by the rules of the verification."""
    from fullmesh.causes.engine import load_causes  # noqa: PLC0415 (the path is set only at run time)
    from fullmesh.verify.model import ClusterObservations  # noqa: PLC0415 (as above)

    if not run.has_gpu:
        put_stand_in_smi(run.scratch)
    for at, words in enumerate((("-q", "-x"), ("topo", "-m"), ("nvlink", "-s"))):
        code, text = run_tool("nvidia-smi", *words)
        run.check(code == 0 or at > 0, f"nvidia-smi {' '.join(words)}: exit status {code}")
        run.keep("nvidia-smi.xml", f"<!-- nvidia-smi {' '.join(words)}: {code} -->\n{text}\n")
    # Nodes use the system's folders only, so a program elsewhere is a finding of its own.
    run.numbers["nvidia-smi"] = shutil.which("nvidia-smi")
    run.numbers["nodes find it"] = (
        import_node_module("facts.node").run_command(["nvidia-smi", "-L"])[0] == 0
    )
    find_programs_anywhere()
    gpus, why = import_node_module("survey.job").survey_gpus()
    run.check(bool(gpus["cards"]) and not why, f"the survey sees no GPU: {why}")
    run.numbers["tools"] = {name: bool(shutil.which(name)) for name in TOOLS}
    run.numbers["gpus"], run.numbers["facts"] = gpus, import_node_module("facts.gpu").observe_gpus()
    plan: Any = {"nodes": {"node1": {"local_ranks": 1}}}
    answers: Any = {"node1": {"node": {"facts": {"survey": {"gpus": gpus}}}}}
    seen = ClusterObservations(plan, answers)
    rules = [one.find for one in load_causes("VC").values() if one.find and one.family == "gpu"]
    found = [finding for rule in rules for finding in rule(seen)]
    run.numbers["findings"] = [
        {"code": one.code, "severity": one.severity, "cause": one.cause} for one in found
    ]
    for one in found:
        run.check(one.severity != "error", f"[{one.code}] {one.cause}")
    if run.has_gpu:
        nvml = run.numbers["nvml"] = read_nvml()
        answer = [{key: gpu[key] for key in (*NVML_TEXTS, "memory")} for gpu in gpus["cards"]]
        run.check(nvml["driver"] == gpus["driver"], f"driver: NVML {nvml}, facts {gpus['driver']}")
        run.check(nvml["cards"] == answer, f"GPUs: NVML {nvml['cards']}, facts {answer}")


# --- collectives -----------------------------------------------------------------------------------------

COLLECTIVES = """
found = {}


def check(name, call):
    try:
        found[name] = bool(call())
    except Exception as error:
        found[name] = f"{type(error).__name__}: {error}"[:300]
    with open(_s + "/new" + _r, "w") as stream:  # a rank may end in the next one
        json.dump(found, stream)


def numbers(count, start):
    return torch.arange(count, device=device, dtype=torch.float32) + start


def summed():
    one = numbers(1 << 16, rank)
    dist.all_reduce(one)
    return torch.equal(one, numbers(1 << 16, 0) * world + world * (world - 1) / 2)


def sent():
    one = numbers(64, 7 if rank == 0 else 0)
    dist.broadcast(one, src=0)
    return torch.equal(one, numbers(64, 7))


def gathered():
    rows = [torch.empty(64, device=device) for _ in range(world)]
    dist.all_gather(rows, numbers(64, rank))
    return all(torch.equal(row, numbers(64, at)) for at, row in enumerate(rows))


def scattered():
    mine = torch.empty(64, device=device)
    dist.reduce_scatter(mine, [numbers(64, at) for at in range(world)])
    return torch.equal(mine, numbers(64, rank) * world)


def exchanged():
    one = torch.zeros(64, device=device)
    calls = [lambda: dist.send(numbers(64, rank), 1 - rank), lambda: dist.recv(one, 1 - rank)]
    for call in calls if rank == 0 else calls[::-1]:
        call()
    return torch.equal(one, numbers(64, 1 - rank))


def met():
    dist.barrier()
    return True


for call in (summed, sent, gathered, scattered, met, exchanged):
    check(call.__name__, call)
wait(grads)
os.rename(_s + "/new" + _r, _s + "/result" + _r)
time.sleep(1)
dist.destroy_process_group()
"""
# Gloo's words if it lacks a collective for GPU tensors
LACKING = ("not support", "nsupported", "not implemented", "does not have")
COLLECTIVE_SECONDS = 35.0


def run_collectives(run: StepRun, state: str, backend: str, more: Mapping[str, str]) -> bool:
    """Run the collectives on two nodes; return whether every value was right on both."""
    script = jobs.START + COLLECTIVES
    with (
        NodePair() as pair,
        GpuJob(pair, run.scratch / state, run.device, script, (), backend, more) as job,
    ):
        run.numbers["network"] = {"kind": pair.kind, "why": pair.why}
        whole = job.wait_for("result", COLLECTIVE_SECONDS * (1 if run.has_gpu else 3))
        partial = [] if len(whole) == len(jobs.RANKS) else job.wait_for("new", 0)
        found = [json.loads(path.read_text()) for path in (*whole, *partial)]
        run.numbers[f"{state} ended"] = job.ended(10)
    run.numbers[state] = found
    record = "nccl-info.log" if "NCCL_DEBUG" in more else "errors.log"
    run.keep(record, f"=== {run.name}, {state}\n{job.printed()}")
    lacks = LACKING if backend and run.has_gpu else ()
    good = [
        value is True
        or (name == "exchanged" and bool(lacks))
        or any(word in str(value) for word in lacks)
        for one in found
        for name, value in one.items()
    ]
    return len(found) == len(jobs.RANKS) and all(good) and bool(whole or lacks)


def step_nccl(run: StepRun) -> None:
    """Run NCCL between two network namespaces on one GPU; explain-log must find no cause in its log."""
    ways = ("hostid", "multi-rank") if run.has_gpu else ("hostid",)
    for way in ways:
        os.environ["ACCEPTANCE_WAY"] = run.numbers["way"] = way
        if run_collectives(run, way, "", {"NCCL_DEBUG": "INFO"}):
            break
    else:
        run.numbers["way"] = ways[0]
        run.check(False, f"not all values are right: {[run.numbers[way] for way in ways]}")
    logs = [run.scratch / run.numbers["way"] / f"rank-{rank}.log" for rank in jobs.RANKS]
    answer = jobs.explain_log(logs)
    causes = [f"{one['code']} {one['cause']}" for one in answer["findings"]]
    why = f"explain-log finds causes in the log of a good job: {causes} {answer['unread']}"
    run.check(answer["code"] == 0, why)
    if run.has_gpu:
        text = "".join(path.read_text(errors="replace") for path in logs)
        run.check("NET/Socket" in text, "NCCL's log does not name NET/Socket")


def step_gloo_cuda(run: StepRun) -> None:
    """Run Gloo with GPU tensors. Only record which operations it lacks, send and receive included."""
    good = run_collectives(run, "gloo", "gloo", {})
    run.check(good, f"not all values are right: {run.numbers['gloo']}")


def step_ladder(run: StepRun) -> None:
    """Run checks L3 to L8 with the verification's own rank program, L7 and L8 on tensors of the GPU."""
    steps = list(importlib.import_module("gloo_ladder").STEPS)
    gpu = {} if run.has_gpu else {"device": "cpu", "backend": "gloo"}
    settings = {"steps": steps, "deadline": 90, "init_timeout": 30, "rendezvous_port": 29400}
    settings |= {"bandwidth_mib": 64 if run.has_gpu else 1, "gpu": gpu}
    path = run.scratch / "settings.json"
    path.write_text(json.dumps(settings))
    program = str(ROOT / "roles/verify_cluster/files/gloo_ladder.py")
    command = (program, str(path), "{state}/events{rank}")
    with (
        NodePair() as pair,
        GpuJob(pair, run.scratch / "job", run.device, command=command) as job,
    ):
        run.numbers["ended"] = job.ended(95)
        rows = [
            [json.loads(line) for line in path.read_text().splitlines()]
            for path in job.wait_for("events", 1)
        ]
    run.check(run.numbers["ended"] == [0, 0], f"exit codes {run.numbers['ended']}")
    for rank, events in enumerate(rows):
        last = {one["step"]: one for one in events if one["state"] != "begin"}
        run.numbers[f"rank {rank}"] = {name: trim_event(one) for name, one in last.items()}
        for name in [*steps, "done"]:
            one = last.get(name, {"state": "not reached", "text": ""})
            run.check(
                one["state"] in ("ok", "unsupported"),
                f"rank {rank}, {name}: {one['state']} {one['text']}",
            )
        for name in ("gpus", "nccl", "nccl_sizes", *(one for one in last if one[:4] == "gpu_")):
            applies = last.get(name, {}).get("data", {}).get("applicable")
            run.check(applies is True, f"rank {rank}: {name} did not apply")
    run.keep("errors.log", f"=== {run.name}\n{job.printed()}")


def trim_event(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return a rank's event without its many sockets."""
    data = {k: v for k, v in event.get("data", {}).items() if k not in ("listeners", "said")}
    return {"state": event["state"], "seconds": event.get("seconds"), **data}


# --- hangs -------------------------------------------------------------------------------------------------


def break_job(run: StepRun, job: GpuJob, breaks: str) -> None:
    """Make the job hang from outside, if it does not hang on its own."""
    time.sleep(1)
    if breaks == "kill":
        job.running[1].send_signal(signal.SIGKILL)
        job.running[1].wait()
        time.sleep(0.5)  # NCCL's watchdog may end the other rank within seconds
    elif breaks == "cut":
        job.pair.cut()
        time.sleep(jobs.HUNG_SECONDS)
    else:
        time.sleep(jobs.HUNG_SECONDS - 1)


def step_hang(run: StepRun, name: str) -> None:
    """Let a job hang; `hang` must name the ranks, and the watchdog's dumps must give the code."""
    hang = jobs.list_hangs(run.device)[name]
    with (
        NodePair() as pair,
        GpuJob(pair, run.scratch / "job", run.device, hang.script, backend=hang.backend) as job,
    ):
        run.numbers["network"] = pair.kind
        job.start_fault()
        broken = time.monotonic()
        break_job(run, job, hang.breaks)
        findings, looks, failed = job.ask_hang()
        run.numbers["asked_seconds"] = round(time.monotonic() - broken, 1)
        if hang.backend:
            run.keep("hang.jsonl", {"records": job.read_records()})
        dumps = job.wait_for("dump_", DUMP_SECONDS) if hang.dumped else []
        run.numbers["dump_seconds"] = round(time.monotonic() - broken, 1)
        time.sleep(1)  # the last dump is being written
        run.numbers["ended"] = job.ended(3)
    run.keep("hang.jsonl", {"findings": findings, "looks": looks, "failed": failed})
    run.keep("errors.log", f"=== {run.name}\n{job.printed()}")
    judged, plain = jobs.judge_dumps(dumps)
    run.keep("dumps.jsonl", {"findings": judged, "dumps": plain})
    answer = jobs.explain_log([job.log(rank) for rank in jobs.RANKS])
    causes = [one["code"] for one in answer["findings"]]
    run.numbers["explain_log"] = causes
    run.numbers["hang"] = [[one["code"], one["ranks"], one["place"]] for one in findings]
    run.numbers["dumped"] = [[one["code"], one["where"]] for one in judged]
    first: list[Any] = run.numbers["hang"][0] if findings else ["nothing", [], ""]
    # If the link goes down, one rank may have its whole result. The finding then says so and names
    # the other.
    alone = [
        (rank,)
        for rank in hang.ranks
        if findings and f"while rank {1 - rank} came out of it" in findings[0]["cause"]
    ]
    named = first[0] in hang.codes and tuple(first[1]) in (hang.ranks, *alone)
    if hang.breaks == "kill" and run.numbers["ended"][0] is not None and not findings:
        named = bool(causes)  # the watchdog had ended rank 0 before the query
    named = named and first[2].endswith(hang.place())
    wanted = [hang.codes, hang.ranks, hang.place()]
    run.check(named, f"hang says {first}, not {wanted}")
    code = judged[0]["code"] if judged else "nothing"
    if hang.dumped:
        run.check(bool(dumps), f"no dump within {DUMP_SECONDS:.0f} s")
        run.check(code in hang.dumped, f"the dumps say {code}, not {' or '.join(hang.dumped)}")
        lacks_none = len(dumps) == len(jobs.RANKS)
        run.check(
            code != "HG-151" or not lacks_none, "the dumps say that a rank has none, but each has"
        )


# --- RAS, errors ----------------------------------------------------------------------------------------------

FAKE_RAS = """
import socket


def serve_ras():  # a FAKE of NCCL's, for Gloo
    status = {"nccl_version": "2.29.1", "communicators_count": 1, "communicators": [{"size": world, "ranks": [
        {"rank": at, "host": "192.0.2.%d" % (at + 1), "pid": 1, "collective_counts": {"AllReduce": 3}}
        for at in range(world)], "missing_ranks": []}]}
    listener = socket.create_server(("127.0.0.1", 28028))
    while True:
        sock, _ = listener.accept()
        with sock:
            while b"STATUS" not in sock.recv(4096):
                pass
            sock.sendall(b"OK\\nOK\\n" + json.dumps(status).encode())


threading.Thread(target=serve_ras, daemon=True).start()
"""
GOES_ON = (
    "ready()\nwhile True:\n    time.sleep(0.01)\n    dist.all_reduce(grads)\n    wait(grads)\n"
)
ASK_RAS = (
    "import sys, json; sys.path.insert(0, sys.argv[1]); import fullmesh_hang_ras as ras; "
    "raw = ras.ask_status('127.0.0.1', ras.PORT); found = ras.parse_status(raw); "
    "print(json.dumps({'raw': raw.decode(), 'status': found, 'here': ras.of_here(found)}))"
)


def step_ras(run: StepRun) -> None:
    """Query NCCL's own RAS on each node, for a healthy job and for one with a stopped rank."""
    script = jobs.START + ("" if run.has_gpu else FAKE_RAS) + GOES_ON
    with NodePair() as pair, GpuJob(pair, run.scratch / "job", run.device, script) as job:
        job.start_fault()
        for state in ("well", "stopped"):
            if state == "stopped":
                job.running[1].send_signal(signal.SIGSTOP)
                time.sleep(4)
            for node in (0, 1) if state == "well" else (0,):
                asked = job.on_node(node, ["-c", ASK_RAS, str(ROOT / "node_programs")])
                out, errors = asked.communicate()
                status: dict[str, Any] = json.loads(out) if out else {"why": errors[-1000:]}
                run.keep("ras.jsonl", {"state": state, "node": node, **status})
                sizes = [one["size"] for one in status.get("status", {}).get("communicators", [])]
                run.numbers[f"{state}, node {node}"] = {"sizes": sizes, "here": status.get("here")}
                run.check(2 in sizes, f"{state}, node {node}: no communicator of 2 ranks: {status}")


def list_error_cases(device: str) -> dict[str, tuple[str, dict[str, str], tuple[str, ...]]]:
    """List the errors: name -> script, variables, codes of explain-log."""
    missing_interface = {"GLOO_SOCKET_IFNAME": "nothere0", "NCCL_SOCKET_IFNAME": "nothere0"}
    if device == "cpu":
        return {"no such interface": ("", missing_interface, ("LG-108",))}
    alike = {"NCCL_HOSTID": "", "NCCL_MULTI_RANK_GPU_ENABLE": ""}
    full = "torch.empty(1 << 42, device=device)\n"
    return {
        "one GPU for two ranks": ("", alike, ("LG-411",)),
        "no such interface": ("", missing_interface, ("LG-406",)),
        "out of memory": (full, {}, ("LG-509",)),
    }


def step_errors(run: StepRun) -> None:
    """Let jobs fail; explain-log must name the cause in the output of torch and NCCL."""
    for at, (name, (script, more, codes)) in enumerate(list_error_cases(run.device).items()):
        state = run.scratch / f"job{at}"
        with (
            NodePair() as pair,
            GpuJob(pair, state, run.device, jobs.START + script, more=more) as job,
        ):
            ended = job.ended(25 if run.has_gpu else jobs.READY_SECONDS)
        run.keep("errors.log", f"=== {run.name}: {name}\n{job.printed()}")
        answer = jobs.explain_log([job.log(rank) for rank in jobs.RANKS])
        found = [one["code"] for one in answer["findings"]]
        run.numbers[name] = {"ended": ended, "explain_log": found}
        run.check(bool(set(found) & set(codes)), f"{name}: explain-log says {found}, not {codes}")


# --- figures -----------------------------------------------------------------------------------------------------

COST = """
side, batch, count = (4096, 4096, 150) if device != "cpu" else (256, 64, 60)
kind = torch.bfloat16 if device != "cpu" else torch.float32
model = torch.nn.Sequential(*(torch.nn.Linear(side, side, device=device, dtype=kind) for _ in range(4)))
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
data, spent = torch.ones(batch, side, device=device, dtype=kind), []
for step in range(count + 10):
    begun = time.perf_counter()
    optimizer.zero_grad()
    model(data).float().pow(2).mean().backward()
    for one in model.parameters():
        dist.all_reduce(one.grad)
    optimizer.step()
    wait(model[0].weight.grad)
    spent.append((time.perf_counter() - begun) * 1e3)
with open(_s + "/new" + _r, "w") as stream:
    json.dump(sorted(spent[10:]), stream)
os.rename(_s + "/new" + _r, _s + "/result" + _r)
"""
VARIANTS = ("without", "hook", "hook, asked")


def time_steps(run: StepRun, pair: NodePair, variant: str, turn: int) -> list[float]:
    """Time the steps of one job of one rank, in milliseconds."""
    state = run.scratch / f"{variant.replace(', ', '-')}-{turn}"
    more = {"PYTHONPATH": os.environ.get("PYTHONPATH", "")} if variant == "without" else {}
    program = str(ROOT / "node_programs/fullmesh_hang.py")
    with GpuJob(pair, state, run.device, jobs.START + COST, more=more, ranks=(0,)) as job:
        while (
            variant == "hook, asked"
            and not job.wait_for("result", 1)
            and job.running[0].poll() is None
        ):
            job.on_node(0, [program, "--json"]).communicate()
        paths = job.wait_for("result")
    run.check(bool(paths), f"{variant}: no figures: {job.printed(500)}")
    found: list[float] = json.loads(paths[0].read_text()) if paths else []
    return found


def step_hook_cost(run: StepRun) -> None:
    """Time a training step without the hook, with it, and with one query per second. The figures are not judged."""
    found: dict[str, list[float]] = {one: [] for one in VARIANTS}
    with NodePair() as pair:
        for turn in range(2):
            for variant in VARIANTS[:: 1 - 2 * turn]:
                found[variant] += time_steps(run, pair, variant, turn)
    for variant, spent in found.items():
        if spent:
            ends = {"median_ms": statistics.median(spent), "least_ms": min(spent)}
            run.numbers[variant] = {k: round(v, 4) for k, v in ends.items()} | {"steps": len(spent)}


def step_burn(run: StepRun) -> None:
    """Repeat one matrix product, which must give the same bits each time."""
    torch: Any = importlib.import_module("torch")
    side, seconds = BURN["cuda" if run.has_gpu else "cpu"]
    kind = torch.bfloat16 if run.has_gpu else torch.float32
    torch.manual_seed(1)
    left, right = (torch.randn(side, side, device=run.device, dtype=kind) for _ in range(2))
    first = left @ right
    exact = (left[:8].double() @ right.double()).to(kind)
    apart = float(((first[:8] - exact).abs().max() / exact.abs().max()).item())
    run.check(apart < 0.02, f"the product is {apart:.2g} away from the one in float64")
    count, odd, begun = 0, 0, time.monotonic()
    while time.monotonic() - begun < seconds:
        for _ in range(10):
            product = left @ right
        odd += not torch.equal(product, first)
        count += 10
    spent = time.monotonic() - begun
    run.check(odd == 0, f"{odd} of {count // 10} products differ from the first")
    tera = 2 * side**3 * count / spent / 1e12
    run.numbers |= {"side": side, "products": count, "tflop_s": round(tera, 2), "apart": apart}
    query = "--query-gpu=temperature.gpu,power.draw,clocks.sm,clocks_event_reasons.active"
    run.numbers["after"] = run_tool("nvidia-smi", query, "--format=csv,noheader")[1].strip()


@dataclass(frozen=True)
class GpuStep:
    """A step and its time limit in seconds."""

    work: Callable[[StepRun], None]
    seconds: float


STEPS: dict[str, GpuStep] = {
    "machine": GpuStep(step_machine, 40),
    "nccl": GpuStep(step_nccl, 90),
    "ladder": GpuStep(step_ladder, 110),
    "gloo_cuda": GpuStep(step_gloo_cuda, 50),
    **{
        f"hang_{name}": GpuStep(partial(step_hang, name=name), 90)
        for name in ("asleep", "different", "kernel", "killed", "link", "both")
    },
    "ras": GpuStep(step_ras, 60),
    "errors": GpuStep(step_errors, 95),
    "hook_cost": GpuStep(step_hook_cost, 80),
    "burn": GpuStep(step_burn, 40),
}
