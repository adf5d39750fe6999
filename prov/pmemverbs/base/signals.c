/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.c -- remove libinfinipath's signal handlers; signals.h says why */
#include "base/signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"

/* is_infinipath -- does the handler belong to libinfinipath? */
static bool is_infinipath(const struct sigaction *action)
{
	union {
		void (*handler)(int);
		void (*sigaction)(int, siginfo_t *, void *);
		void *address;
	} is = {.handler = action->sa_handler};
	Dl_info info;
	const char *name;

	if (action->sa_flags & SA_SIGINFO)
		is.sigaction = action->sa_sigaction;
	else if (action->sa_handler == SIG_DFL || action->sa_handler == SIG_IGN)
		return false;
	if (!dladdr(is.address, &info) || !info.dli_fname)
		return false;
	name = strrchr(info.dli_fname, '/');
	name = name ? name + 1 : info.dli_fname;
	return !strncmp(name, "libinfinipath.", strlen("libinfinipath."));
}

void pmv_signals_restore(void)
{
	static const int signals[] = {SIGINT, SIGTERM, SIGSEGV, SIGBUS, SIGILL, SIGABRT};
	const struct sigaction none = {.sa_handler = SIG_DFL};

	for (size_t i = 0; i < sizeof(signals) / sizeof(signals[0]); i++) {
		struct sigaction action;

		if (!sigaction(signals[i], NULL, &action) && is_infinipath(&action) &&
		    !sigaction(signals[i], &none, NULL))
			PMV_INFO(FABRIC,
				 "signal %d has its default action again: libinfinipath's handler "
				 "may keep the process from ending\n",
				 signals[i]);
	}
}
