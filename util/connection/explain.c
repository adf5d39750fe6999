/* SPDX-License-Identifier: BSD-2-Clause */
/* explain.c -- what to look at when a call of libfabric fails; see explain.h */
#include "explain.h"

#include <dlfcn.h>
#include <netdb.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

int explain(struct connection_error *error, int ret, const char *format, ...)
{
	struct connection_error text;
	va_list args;

	va_start(args, format);
	vsnprintf(text.text, sizeof(text.text), format, args);
	va_end(args);
	if (error)
		*error = text;
	else
		fprintf(stderr, "%s\n", text.text);
	return ret;
}

int explain_call(struct connection_error *error, const char *call, ssize_t ret)
{
	return explain(error, (int) ret, "%s: %s", call, fi_strerror((int) -ret));
}

int explain_listen(struct connection_error *error, const char *port, ssize_t ret)
{
	return explain(error, (int) ret, "nobody can connect to port %s: %s", port ? port : "0",
		       fi_strerror((int) -ret));
}

/*
 * load_error -- why a provider that is there can't be loaded, or NULL.  libfabric passes that over
 * in silence: it may need another libfabric than this one, say, or a library that is missing.
 */
static const char *load_error(const char *provider, const char *path)
{
	char *dirs = strdup(path), *rest = dirs, *dir, *file;
	const char *why = NULL;

	while (!why && (dir = strsep(&rest, ":"))) {
		if (asprintf(&file, "%s/lib%s-fi.so", dir, provider) < 0)
			break;
		if (!access(file, F_OK) && !dlopen(file, RTLD_NOW))
			why = dlerror();
		free(file);
	}
	free(dirs);
	return why;
}

static bool is_listed(const char *provider)
{
	struct fi_info *list = NULL, *info;
	bool found = false;

	if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list))
		return false;
	for (info = list; info && !found; info = info->next)
		found = !strcmp(info->fabric_attr->prov_name, provider);
	fi_freeinfo(list);
	return found;
}

/* explain_missing -- before: what is known of the call that has failed because of it, and a newline
 */
static int explain_missing(struct connection_error *error, const char *before, const char *provider,
			   int ret)
{
	const char *path = getenv("FI_PROVIDER_PATH");
	const char *why = path ? load_error(provider, path) : NULL;

	return explain(error, ret,
		       "%slibfabric knows no provider %s. FI_PROVIDER_PATH has to name the "
		       "directory of libpmemverbs-fi.so;\nit is %s. fi_info -l lists the "
		       "providers that are found.%s%s%s",
		       before, provider, path ? path : "not set",
		       why ? "\nIt is there, but can't be loaded: " : "", why ? why : "",
		       why ? ".\nA provider runs with the libfabric that it was built with, or a "
			     "newer one."
			   : "");
}

bool provider_is_there(struct connection_error *error, const char *provider)
{
	if (is_listed(provider))
		return true;
	explain_missing(error, "", provider, 0);
	return false;
}

int explain_offer(struct connection_error *error, const char *provider, const char *host, int ret)
{
	struct addrinfo *found;
	int unknown = host ? getaddrinfo(host, NULL, NULL, &found) : 0;
	char call[128];

	if (unknown)
		return explain(error, ret, "there is no host '%s': %s", host,
			       gai_strerror(unknown));
	if (host)
		freeaddrinfo(found);
	snprintf(call, sizeof(call), "fi_getinfo: %s (%d)\n", fi_strerror(-ret), ret);
	if (!is_listed(provider))
		return explain_missing(error, call, provider, ret);
	return explain(error, ret,
		       "%sThe provider %s is there, but offers nothing for these options and "
		       "settings.\nFI_LOG_LEVEL=info says why; fi_info -p %s lists its devices "
		       "(-d) and addresses (-s).",
		       call, provider, provider);
}

int explain_memory(struct connection_error *error, int ret)
{
	return explain(error, ret,
		       "fi_mr_reg: %s (%d)\nThe provider refuses this memory: FI_LOG_LEVEL=warn "
		       "says why. Memory that is not\ndurable, to try things out with, is "
		       "declared by FI_PMEMVERBS_DOMAIN=mhp.",
		       fi_strerror(-ret), ret);
}

int explain_connection(struct connection_error *error, const char *host, const char *port, int ret)
{
	if (ret == -FI_ECONNREFUSED)
		return explain(error, ret,
			       "connection refused: nobody accepts connections at %s, port %s: "
			       "start the server first,\nor see what it has printed if it has "
			       "ended.",
			       host, port);
	return explain(error, ret,
		       "connection refused: the server at %s, port %s, has ended it instead of "
		       "accepting it:\nsee what it has printed.",
		       host, port);
}
