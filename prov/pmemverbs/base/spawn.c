/* SPDX-License-Identifier: BSD-2-Clause */
/* spawn.c -- threads of the provider's own */
#include "base/spawn.h"

#include <signal.h>

int pmv_spawn(pthread_t *thread, const char *name, void *(*run)(void *), void *arg, int signal)
{
	sigset_t mask, old;
	int ret;

	sigfillset(&mask);
	if (signal)
		sigdelset(&mask, signal);
	pthread_sigmask(SIG_SETMASK, &mask, &old);
	ret = pthread_create(thread, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	if (!ret)
		pthread_setname_np(*thread, name);
	return ret;
}
