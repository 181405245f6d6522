"""Check L8: a short real training job. Each of its results is compared with the value that it must have.

Samples and first parameters are multiples of 1/64 and 1/256, drawn as integers, so they have the same bits on every
CPU. The training uses float64, so that the order of additions can neither hide a fault nor look like one.
"""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from ladder_rank import Place, Rank, WrongValueError

if TYPE_CHECKING:  # types of these events. Nodes do not have this module
    from fullmesh.observed.ranks import TrainingStepResult

SEED = 20260401
SAMPLES = 16  # of each rank in each epoch. The ranks divide the set evenly, so the sampler repeats no sample
BATCH = 8
EPOCHS = 2
FEATURES = 8
HIDDEN = 16
RATE = 0.1
# Float64 rounds at 1e-16 per operation, a few thousand times in a row. A lost sample changes the loss by 1e-4.
CLOSE = 1e-9
# bfloat16 rounds at 2^-9 = 0.2 % in each step. float16 is finer.
CLOSE_LOW = 0.02
SCALE = 1024.0  # the default of 65536 overflows in float16 and skips the first steps
MOST_SHOWN = 5


@dataclass(frozen=True)
class Team:
    """The ranks that train together, and their device and process group.

    Attributes:
        members: global ranks.
        place: device, backend and the process group of the members.
        seed: of the samples, the first parameters and the sampler.
    """

    members: Sequence[int]
    place: Place
    seed: int = SEED

    @property
    def samples(self) -> int:
        """The size of the data set."""
        return SAMPLES * len(self.members)


def zip_rows(*rows: Iterable[Any]) -> list[tuple[Any, ...]]:
    """Return the rows zipped, as ``zip`` with ``strict`` does, which Python 3.9 of EL 9 does not have.

    Raises:
        ValueError: the rows differ in length.
    """
    held = [list(row) for row in rows]
    sizes = [len(row) for row in held]
    if len(set(sizes)) > 1:
        raise ValueError(f"rows of {', '.join(map(str, sizes))} values, which must be equally long")
    return list(zip(*held))


class Samples:
    """A data set that returns each sample together with its number."""

    def __init__(self, rank: Rank, team: Team) -> None:
        torch = rank.torch
        drawn = torch.Generator().manual_seed(team.seed)
        shape = (team.samples, FEATURES)
        whole = torch.randint(-64, 65, shape, generator=drawn).to(torch.float64) / 64
        self.inputs = whole.to(team.place.device)
        wanted = whole[:, :1] * whole[:, 1:2] - whole[:, 2:3]
        self.wanted = wanted.to(team.place.device)

    def __len__(self) -> int:
        return len(self.inputs)

    def __getitem__(self, index: int) -> tuple[int, Any, Any]:
        return index, self.inputs[index], self.wanted[index]


def build_network(rank: Rank, team: Team, dtype: Any = None) -> Any:
    """Build a network of two layers, with the same parameters on every rank."""
    torch = rank.torch
    drawn = torch.Generator().manual_seed(team.seed + 1)
    dtype = dtype or torch.float64
    made = torch.nn.Sequential(
        torch.nn.Linear(FEATURES, HIDDEN, dtype=dtype, device=team.place.device),
        torch.nn.Tanh(),
        torch.nn.Linear(HIDDEN, 1, dtype=dtype, device=team.place.device),
    )
    with torch.no_grad():
        for held in made.parameters():
            held.copy_(torch.randint(-128, 129, held.shape, generator=drawn) / 256)
    return made


def compute_loss(rank: Rank, net: Any, inputs: Any, wanted: Any) -> Any:
    """Return the mean of the squared differences."""
    return rank.torch.nn.functional.mse_loss(net(inputs).to(wanted.dtype), wanted)


def gather_rows(rank: Rank, team: Team, values: Any) -> list[list[Any]]:
    """Return the short row of numbers of each member, on all members."""
    mine = values.to(team.place.device)
    found = [rank.torch.zeros_like(mine) for _ in team.members]
    rank.dist.all_gather(found, mine, group=team.place.group)
    return [row.tolist() for row in found]


def make_row(rank: Rank, values: Iterable[float]) -> Any:
    """Return a row of float64."""
    return rank.torch.tensor(list(values), dtype=rank.torch.float64)


def find_odd_members(team: Team, rows: Sequence[Any]) -> list[int]:
    """Return the ranks whose row differs from most rows. Of two ranks, this is the second."""
    usual = max(rows, key=rows.count)
    return [member for member, row in zip_rows(team.members, rows) if row != usual]


def format_numbers(ranks: Sequence[int]) -> str:
    """Format numbers of ranks or samples for a message."""
    more = f" and {len(ranks) - MOST_SHOWN} more" if len(ranks) > MOST_SHOWN else ""
    return ", ".join(str(rank) for rank in ranks[:MOST_SHOWN]) + more


def check_same_start(rank: Rank, team: Team, data: Samples) -> None:
    """Check that all members start with the same samples and parameters, to the bit."""
    weights = rank.torch.arange(1, team.samples + 1, dtype=rank.torch.float64)
    first = (data.inputs.cpu().sum(1) * weights).sum()
    second = (data.wanted.cpu()[:, 0] * weights).sum()
    third = sum(held.detach().sum().item() for held in build_network(rank, team).parameters())
    rows = gather_rows(rank, team, make_row(rank, (first.item(), second.item(), third)))
    odd = find_odd_members(team, rows)
    if odd:
        at = team.members.index(odd[0])
        usual = max(rows, key=rows.count)
        what = f"rank {format_numbers(odd)} starts from other data or parameters than the others (its seed)"
        raise WrongValueError(what, rows[at], usual, "start", odd)


def make_sampler(rank: Rank, team: Team, data: Samples) -> Any:
    """Return the sampler that jobs use."""
    return rank.torch.utils.data.DistributedSampler(
        data,
        num_replicas=len(team.members),
        rank=team.members.index(rank.rank),
        shuffle=True,
        seed=team.seed,
    )


def load_batches(rank: Rank, team: Team, data: Samples) -> list[list[Any]]:
    """Return the batches of the loader for each epoch."""
    sampler = make_sampler(rank, team, data)
    loader = rank.torch.utils.data.DataLoader(data, batch_size=BATCH, sampler=sampler)
    epochs = []
    for epoch in range(EPOCHS):
        sampler.set_epoch(epoch)
        epochs.append(list(loader))
    return epochs


def check_samples(rank: Rank, team: Team, epochs: Sequence[Sequence[Any]]) -> None:
    """Check that in each epoch, the members together got each sample exactly once."""
    torch = rank.torch
    for epoch, batches in enumerate(epochs):
        mine = [int(number) for batch in batches for number in batch[0]]
        sizes = [int(row[0]) for row in gather_rows(rank, team, torch.tensor([len(mine)]))]
        odd = [m for m, size in zip_rows(team.members, sizes) if size != SAMPLES]
        if odd:
            seen = sizes[team.members.index(odd[0])]
            what = f"epoch {epoch}: number of samples that rank {format_numbers(odd)} was given"
            raise WrongValueError(what, seen, SAMPLES, "sampler", odd)
        rows = gather_rows(rank, team, torch.tensor(mine))
        held = [number for row in rows for number in row]
        twice = sorted(number for number, times in Counter(held).items() if times > 1)
        lost = sorted(set(range(team.samples)) - set(held))
        if twice or lost:
            parts = split_order(rank, team, epoch)
            odd = [m for m, row, part in zip_rows(team.members, rows, parts) if row != part]
            what = f"epoch {epoch}, sampler of rank {format_numbers(odd)}"
            text = f"{len(twice)} samples twice ({format_numbers(twice)}), {len(lost)} lost ({format_numbers(lost)})"
            raise WrongValueError(what, text, "each sample once", "sampler", odd)


def compute_order(rank: Rank, team: Team, epoch: int) -> list[int]:
    """Return the order of an epoch, as torch documents it: randperm with seed + epoch."""
    drawn = rank.torch.Generator().manual_seed(team.seed + epoch)
    order: list[int] = rank.torch.randperm(team.samples, generator=drawn).tolist()
    return order


def split_order(rank: Rank, team: Team, epoch: int) -> list[list[int]]:
    """Return the samples that each member must get, computed without the sampler."""
    order, size = compute_order(rank, team, epoch), len(team.members)
    return [order[at::size] for at in range(size)]


def build_whole_batches(rank: Rank, team: Team, data: Samples) -> list[Any]:
    """Return the batches of all members together, for a single process."""
    size = BATCH * len(team.members)
    found = []
    for epoch in range(EPOCHS):
        order = compute_order(rank, team, epoch)
        for at in range(0, team.samples, size):
            picked = rank.torch.tensor(order[at : at + size], device=team.place.device)
            found.append((picked, data.inputs[picked], data.wanted[picked]))
    return found


def train_network(rank: Rank, net: Any, batches: Iterable[Any], data: Samples) -> list[float]:
    """Train a network. Return the loss over all samples before the first step and after each step."""
    descent = rank.torch.optim.SGD(net.parameters(), lr=RATE)

    def whole() -> float:
        with rank.torch.no_grad():
            return float(compute_loss(rank, net, data.inputs, data.wanted))

    losses = [whole()]
    for _, inputs, wanted in batches:
        descent.zero_grad()
        compute_loss(rank, net, inputs, wanted).backward()
        descent.step()
        losses.append(whole())
    return losses


def train_alone(rank: Rank, team: Team, data: Samples) -> tuple[list[float], list[float]]:
    """Return the losses and parameters that a single process gets from the same samples."""
    net = build_network(rank, team)
    losses = train_network(rank, net, build_whole_batches(rank, team, data), data)
    return losses, flatten_parameters(rank, net)


def flatten_parameters(rank: Rank, net: Any) -> list[float]:
    """Return all parameters in a row."""
    found: list[float] = rank.torch.cat([p.detach().flatten() for p in net.parameters()]).tolist()
    return found


def describe_machine(rank: Rank, team: Team) -> str:
    """Return the kind of CPU or GPU. Different kinds fuse operations differently, and so round differently."""
    if team.place.device == "cpu":
        return str(rank.torch.backends.cpu.get_cpu_capability())
    return str(rank.torch.cuda.get_device_name())


def is_rounding_alike(rank: Rank, team: Team) -> bool:
    """Return whether all members round in the same way, so that their results must be equal to the bit."""
    # a sum of the bytes has the same length on all members, and differs between the few kinds
    kind = sum(at * byte for at, byte in enumerate(describe_machine(rank, team).encode(), 1))
    return len({row[0] for row in gather_rows(rank, team, rank.torch.tensor([kind]))}) == 1


def is_near(one: float, other: float, most: float) -> bool:
    """Return whether two numbers differ by at most the share *most*. A NaN is near no number."""
    return abs(one - other) <= most * max(abs(one), abs(other), 1e-6)


def check_same_everywhere(rank: Rank, team: Team, what: str, values: Sequence[float]) -> None:
    """Check that losses or parameters are the same on all members, to the bit if they round in the same way."""
    rows = gather_rows(rank, team, make_row(rank, values))
    lost = [m for m, row in zip_rows(team.members, rows) if not all(map(math.isfinite, row))]
    if lost:
        raise WrongValueError(
            f"{what} of rank {format_numbers(lost)}", "no number", "a number", "ranks", lost
        )
    most = 0.0 if is_rounding_alike(rank, team) else CLOSE
    usual = max(rows, key=rows.count)
    for member, row in zip_rows(team.members, rows):
        apart = next(((a, b) for a, b in zip_rows(row, usual) if not is_near(a, b, most)), None)
        if apart:
            raise WrongValueError(
                f"{what} of rank {member}, against the others'", *apart, "ranks", [member]
            )


def check_against_reference(
    team: Team, what: str, seen: Sequence[float], wanted: Sequence[float], most: float = CLOSE
) -> None:
    """Check that the results are those of a single process."""
    for number, (one, other) in enumerate(zip_rows(seen, wanted)):
        if not is_near(one, other, most):
            text = f"{what} after step {number} over ranks {format_numbers(list(team.members))}"
            raise WrongValueError(text, one, f"{other} (one process alone)", "reference")


def wrap_with_ddp(rank: Rank, net: Any, team: Team) -> Any:
    """Wrap a network with DDP over the members."""
    return rank.torch.nn.parallel.DistributedDataParallel(net, process_group=team.place.group)


def train_together(rank: Rank, team: Team) -> TrainingStepResult:
    """Train with DDP and a DistributedSampler, and check each result."""
    data = Samples(rank, team)
    check_same_start(rank, team, data)
    epochs = load_batches(rank, team, data)
    check_samples(rank, team, epochs)
    net = wrap_with_ddp(rank, build_network(rank, team), team)
    losses = train_network(rank, net, itertools.chain(*epochs), data)
    check_same_everywhere(rank, team, "loss", losses)
    check_same_everywhere(rank, team, "parameter", flatten_parameters(rank, net))
    wanted, _ = train_alone(rank, team, data)
    check_against_reference(team, "loss", losses, wanted)
    return {
        "applicable": True,
        "device": team.place.device,
        "backend": team.place.backend,
        "samples": team.samples,
        "steps": len(losses) - 1,
        "loss": losses[-1],
        "reference": wanted[-1],
        "first_loss": losses[0],
    }


def step_ddp(rank: Rank, place: Place) -> TrainingStepResult:
    """Train one model on all ranks."""
    return train_together(rank, Team(range(rank.world), place))


def choose_low_precision(rank: Rank, place: Place) -> Any:
    """Return the type for autocast: float16 needs a GPU, bfloat16 works on CPUs as well."""
    return rank.torch.bfloat16 if place.device == "cpu" else rank.torch.float16


def step_amp(rank: Rank, place: Place) -> TrainingStepResult:
    """Train with autocast and the gradient scaler, and compare with the exact losses."""
    torch, team = rank.torch, Team(range(rank.world), place)
    kind, low = torch.device(place.device).type, choose_low_precision(rank, place)
    data = Samples(rank, team)
    net = wrap_with_ddp(rank, build_network(rank, team, torch.float32), team)
    descent = torch.optim.SGD(net.parameters(), lr=RATE)
    scaler = torch.amp.GradScaler(kind, init_scale=SCALE)
    losses = []
    for _, inputs, wanted in itertools.chain(*load_batches(rank, team, data)):
        descent.zero_grad()
        with torch.autocast(kind, dtype=low):
            out = net(inputs.float())
        if out.dtype != low:
            raise WrongValueError("autocast's result", out.dtype, low, "amp")
        scaler.scale(torch.nn.functional.mse_loss(out.float(), wanted.float())).backward()
        scaler.step(descent)
        scaler.update()
        with torch.no_grad():
            losses.append(compute_loss(rank, net, data.inputs.float(), data.wanted).item())
    if scaler.get_scale() < SCALE:
        raise WrongValueError("gradients overflowed; the scale", scaler.get_scale(), SCALE, "amp")
    check_same_everywhere(rank, team, f"loss in {low}", losses)
    wanted_losses, _ = train_alone(rank, team, data)
    check_against_reference(team, f"loss in {low}", losses, wanted_losses[1:], CLOSE_LOW)
    return {
        "applicable": True,
        "dtype": str(low),
        "loss": losses[-1],
        "reference": wanted_losses[-1],
    }


def list_subgroups(rank: Rank) -> list[list[int]]:
    """Return groups of every other rank, so that they span nodes. Two ranks are one group."""
    few = [list(range(rank.world))]
    evens_odds = [list(range(0, rank.world, 2)), list(range(1, rank.world, 2))]
    return few if rank.world < 3 else evens_odds  # noqa: PLR2004 (two ranks make no two groups)


def make_group(rank: Rank, members: list[int], place: Place) -> Any:
    """Return a subgroup on this backend. Check L4 has already created those of Gloo."""
    if place.backend == "gloo" and place.device == "cpu":
        held = [group for ranks, group in rank.groups if ranks == members]
        if held:
            return held[0]
    return rank.dist.new_group(members, backend=place.backend)


def step_subgroups(rank: Rank, place: Place) -> TrainingStepResult:
    """Train all groups at the same time, each with its own data. No group may change the results of another."""
    said: TrainingStepResult = {"applicable": False}
    wanted = list_subgroups(rank)
    made = [(members, make_group(rank, members, place)) for members in wanted]
    for number, (members, group) in enumerate(made):
        if rank.rank in members:
            own = Place(place.device, place.backend, group)
            said = train_together(rank, Team(members, own, SEED + 100 * (number + 1)))
    return {**said, "groups": wanted}


def shard_network(rank: Rank, net: Any, place: Place) -> Any:
    """Shard every layer and the whole network with FSDP."""
    fsdp = rank.dist.fsdp
    mesh = rank.dist.device_mesh.DeviceMesh.from_group(
        place.group, rank.torch.device(place.device).type
    )
    for layer in net:
        if list(layer.parameters()):
            fsdp.fully_shard(layer, mesh=mesh)
    fsdp.fully_shard(net, mesh=mesh)
    return net


def check_sharding(rank: Rank, team: Team, net: Any) -> None:
    """Check that each rank holds only its part of the parameters."""
    held = [float(p.to_local().numel()) for p in net.parameters()]
    rows = gather_rows(rank, team, make_row(rank, held))
    whole = [float(p.numel()) for p in net.parameters()]
    total = [sum(column) for column in zip_rows(*rows)]
    if total != whole:
        raise WrongValueError("parameters held by all ranks together", total, whole, "sharding")
    if rank.world > 1 and sum(held) >= sum(whole):
        raise WrongValueError(
            f"parameters held by rank {rank.rank}", sum(held), f"less than {sum(whole)}", "sharding"
        )


def step_fsdp(rank: Rank, place: Place) -> TrainingStepResult:
    """Train with FSDP. Check that parameters are sharded, and that the result is that of a single process."""
    team = Team(range(rank.world), place)
    data = Samples(rank, team)
    net = shard_network(rank, build_network(rank, team), place)
    check_sharding(rank, team, net)
    losses = train_network(rank, net, itertools.chain(*load_batches(rank, team, data)), data)
    check_same_everywhere(rank, team, "loss under FSDP", losses)
    found = [p.full_tensor().detach().flatten() for p in net.parameters()]
    wanted, parameters = train_alone(rank, team, data)
    check_against_reference(team, "loss under FSDP", losses, wanted)
    check_against_reference(
        team, "parameter under FSDP", rank.torch.cat(found).tolist(), parameters
    )
    return {"applicable": True, "loss": losses[-1], "reference": wanted[-1]}


JOBS: dict[str, Callable[[Rank, Place], TrainingStepResult]] = {
    "ddp": step_ddp,
    "amp": step_amp,
    "subgroups": step_subgroups,
    "fsdp": step_fsdp,
}


def run_on_cpu(job: Callable[[Rank, Place], TrainingStepResult], rank: Rank) -> TrainingStepResult:
    """Train on the CPUs, over Gloo."""
    return job(rank, Place("cpu", "gloo", rank.dist.group.WORLD))


def run_on_gpu(job: Callable[[Rank, Place], TrainingStepResult], rank: Rank) -> TrainingStepResult:
    """Train on the GPUs, over NCCL, if check L7 found them."""
    return job(rank, rank.gpu) if rank.gpu else {"applicable": False}


STEPS: dict[str, Callable[[Rank], TrainingStepResult]] = {
    **{name: partial(run_on_cpu, job) for name, job in JOBS.items()},
    **{f"gpu_{name}": partial(run_on_gpu, job) for name, job in JOBS.items()},
}
