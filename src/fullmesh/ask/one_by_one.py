"""Query the hosts that need Ansible's own task: Ansible's module runs there, with one thread per host.

``ansible.executor.task_executor`` handles one task and host. This does the same for one query and host: the
connection with every option of the host, its way to become root, and the module with the query's name.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from ansible import constants  # type: ignore[attr-defined]  # ansible ships no types
from ansible.errors import AnsibleConnectionFailure, AnsibleError
from ansible.module_utils.parsing.convert_bool import boolean
from ansible.plugins.action import ActionBase

from fullmesh import ansible_private
from fullmesh.ask.answers import (
    TaskResult,
    build_module_failure,
    build_timeout_result,
    build_unreachable_result,
)
from fullmesh.ask.program import KNOWN

# interval at which a waiting query checks its deadline
TURN_SECONDS = 0.2


@dataclass(frozen=True)
class ModuleQuery:
    """A query for one host.

    Attributes:
        question: the name of the module.
        given: the arguments of the module.
        task: the task that queries, with its settings for becoming root.
    """

    question: str
    given: Mapping[str, Any]
    task: Any


class ModuleRunner(ActionBase):  # type: ignore[misc]  # Ansible ships no types
    """Runs a module over a connection that was made for it."""

    _supports_check_mode = True

    def run(
        self, tmp: str | None = None, task_vars: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        """Run the module. A connection error becomes the answer of the host."""
        super().run(tmp, task_vars)
        try:
            said: dict[str, Any] = self._execute_module(
                module_name=self._task.action, module_args=self._task.args, task_vars=task_vars
            )
        except AnsibleConnectionFailure as error:
            return build_unreachable_result(str(error))
        finally:
            self.cleanup(force=True)
            self._connection.close()
        return {key: value for key, value in said.items() if key != "invocation"}


def connect_module_runner(action: Any, task: Any, variables: dict[str, Any]) -> ModuleRunner:
    """Return the module's runner for a host, with its connection."""
    context, templar = ansible_private.derive_host_context(action, task, variables)
    kind = templar.template(variables.get("ansible_connection", task.connection)) or "ssh"
    plugin = ansible_private.open_connection(kind, task, context)
    if plugin is None:
        raise AnsibleError(f"there is no connection plugin {kind}")
    keys = ansible_private.build_task_keys(task, context, ("password",))
    own = variables.get("ansible_become")
    wanted = task.become if own is None else boolean(templar.template(own), strict=False)
    if wanted:
        method = templar.template(variables.get("ansible_become_method", task.become_method))
        plugin.set_become_plugin(ansible_private.open_become(method))
    ansible_private.set_connection_options(plugin, keys, variables, templar)
    for name, one in (("shell", ansible_private.get_shell(plugin)), ("become", plugin.become)):
        if one is not None:
            values = ansible_private.select_plugin_variables(name, one, variables)
            more = {"become_pass": context.become_pass} if context.become_pass else {}
            one.set_options(
                task_keys={**keys, **more},
                var_options={key: templar.template(value) for key, value in values.items()},
            )
    loader, shared = ansible_private.get_loaders(action)
    return ModuleRunner(task, plugin, context, loader, templar, shared)


def query_with_module(action: Any, job: ModuleQuery, variables: dict[str, Any]) -> TaskResult:
    """Return the result that Ansible's own task would register for a host."""
    task = job.task.copy()
    task.action, task.args = job.question, dict(job.given)
    try:
        return connect_module_runner(action, task, variables).run(task_vars=variables)
    except AnsibleError as error:
        return build_module_failure(str(error))


class PendingQueries:
    """Queries that run in one daemon thread per host, so that a hung host delays nothing."""

    def __init__(self, action: Any, jobs: Mapping[str, ModuleQuery], hostvars: Any) -> None:
        self.action, self.jobs, self.hostvars = action, jobs, hostvars
        self.gate = threading.Semaphore(constants.DEFAULT_FORKS)
        self.begun: dict[str, float] = {}
        self.found: dict[str, TaskResult] = {}
        # read here, because Ansible's variables are not thread-safe
        own = {host: ansible_private.read_raw_variables(hostvars, host) for host in jobs}

        def work(host: str) -> None:
            with self.gate:
                self.begun[host] = time.monotonic()
                self.found[host] = query_with_module(action, jobs[host], own[host])

        self.threads = {
            host: threading.Thread(target=work, args=(host,), daemon=True) for host in jobs
        }
        for thread in self.threads.values():
            thread.start()

    def stop(self) -> None:
        """Stop the hosts that have not answered yet, if the query supports it."""
        jobs = {}
        for host in (one for one, thread in self.threads.items() if thread.is_alive()):
            job = self.jobs[host]
            if stop := KNOWN[job.question].stop:
                given = {"run": job.given["run"], **stop}
                jobs[host] = ModuleQuery(job.question, given, job.task)
        PendingQueries(self.action, jobs, self.hostvars)

    def answers(self, seconds: int) -> dict[str, TaskResult]:
        """Return the answer of each host, waiting at most *seconds* from its turn on."""
        return {host: self.answer(host, seconds) for host in self.threads}

    def answer(self, host: str, seconds: int) -> TaskResult:
        """Wait for the answer of one host."""
        thread = self.threads[host]
        while thread.is_alive():
            left = seconds - (time.monotonic() - self.begun.get(host, time.monotonic()))
            if left <= 0:
                self.gate.release()  # the other hosts need not wait for this one
                return build_timeout_result(seconds, f"ansible {host} -m raw -a")
            thread.join(min(left, TURN_SECONDS))
        return self.found.get(host, build_module_failure("its module ended without an answer"))
