/* SPDX-License-Identifier: BSD-2-Clause */
/* signals.c -- remove libinfinipath's signal handlers; signals.h says why */
#include "base/signals.h"

#include <dlfcn.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/log.h"

/* is_infinipath -- does the handler belong to libinfinipath?  SIG_DFL belongs to nothing. */
static bool is_infinipath(const struct sigaction *action)
{
	/* Both kinds of handlers are in the same place. */
	const union {
		void (*handler)(int);
		void *address;
	} is = {.handler = action->sa_handler};
	Dl_info info;

	return dladdr(is.address, &info) && info.dli_fname &&
	       !strncmp(basename(info.dli_fname), "libinfinipath.", strlen("libinfinipath."));
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
