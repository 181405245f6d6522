/* Lets User-mode Linux 6.1 run on processors with AMX: preloaded, it stands between linux.uml and libc's ptrace().
 *
 * UML keeps 2696 bytes of a process' extended registers, which is all up to AVX-512. With AMX the kernel has 11008 of
 * them and takes only the whole (xstateregs_set() in arch/x86/kernel/fpu/regset.c: EFAULT), so UML kills its init with
 * SIGSEGV. Upstream asks the kernel for the size since 6.12. Here the rest is what the process has already: AMX's tiles,
 * which nobody in a node uses, because the kernel hands them out on request only (arch_prctl(2), ARCH_REQ_XCOMP_PERM).
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <elf.h>
#include <stdarg.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/types.h>
#include <sys/uio.h>

#define LARGEST 65536

static long (*real)(int, pid_t, void *, void *);

/* Before UML's main(): later its small stacks are no place for the dynamic linker. */
__attribute__((constructor)) static void find(void)
{
	real = (long (*)(int, pid_t, void *, void *))dlsym(RTLD_NEXT, "ptrace");
}

long ptrace(enum __ptrace_request request, ...)
{
	static char state[LARGEST] __attribute__((aligned(64)));
	struct iovec whole = {state, sizeof(state)};
	const struct iovec *given;
	va_list rest;
	pid_t pid;
	void *address, *data;

	va_start(rest, request);
	pid = va_arg(rest, pid_t);
	address = va_arg(rest, void *);
	data = va_arg(rest, void *);
	va_end(rest);
	if (request == PTRACE_SETREGSET && (unsigned long)address == NT_X86_XSTATE) {
		given = data;
		if (real(PTRACE_GETREGSET, pid, address, &whole) == 0 && whole.iov_len > given->iov_len) {
			memcpy(state, given->iov_base, given->iov_len);
			return real(PTRACE_SETREGSET, pid, address, &whole);
		}
	}
	return real(request, pid, address, data);
}
