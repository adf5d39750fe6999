/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * explain.c -- what to look at when a call of libfabric fails: its errors have many
 * causes each
 */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include "explain.h"
#include "options.h"

int report(const char *call, ssize_t ret)
{
	fprintf(stderr, "%s: %s (%zd)\n", call, fi_strerror((int) -ret), ret);
	return (int) ret;
}

/*
 * say_load_errors -- a provider that needs another libfabric than this one, say, or a library
 * that is missing, libfabric passes over in silence
 */
static void say_load_errors(const char *provider, const char *path)
{
	char *dirs = strdup(path), *rest = dirs, *dir, *file;

	while ((dir = strsep(&rest, ":"))) {
		if (asprintf(&file, "%s/lib%s-fi.so", dir, provider) < 0)
			break;
		if (!access(file, F_OK) && !dlopen(file, RTLD_NOW))
			fprintf(stderr,
				"It is there, but can't be loaded: %s.\n"
				"A provider runs with the libfabric that it was built with, or a "
				"newer one.\n",
				dlerror());
		free(file);
	}
	free(dirs);
}

bool provider_is_there(const struct options *opts)
{
	const char *path = getenv("FI_PROVIDER_PATH");
	struct fi_info *list = NULL, *info;
	bool found = false;

	if (!fi_getinfo(FI_VERSION(1, 17), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list)) {
		for (info = list; info && !found; info = info->next)
			found = !strcmp(info->fabric_attr->prov_name, opts->provider);
		fi_freeinfo(list);
	}
	if (!found)
		fprintf(stderr,
			"libfabric knows no provider %s. FI_PROVIDER_PATH has to name the "
			"directory of libpmemverbs-fi.so;\nit is %s. fi_info -l lists the "
			"providers that are found.\n",
			opts->provider, path ? path : "not set");
	if (!found && path)
		say_load_errors(opts->provider, path);
	return found;
}

int report_offer(const struct options *opts, int ret)
{
	report("fi_getinfo", ret);
	if (provider_is_there(opts))
		fprintf(stderr,
			"The provider %s is there, but offers nothing for these options and "
			"settings.\nFI_LOG_LEVEL=info says why; fi_info -p %s lists its devices "
			"(-d) and addresses (-s).\n",
			opts->provider, opts->provider);
	return ret;
}

int report_memory(int ret)
{
	report("fi_mr_reg", ret);
	fprintf(stderr,
		"The provider refuses this memory: FI_LOG_LEVEL=warn says why. Memory that is "
		"not\ndurable, to try things out with, is declared by FI_PMEMVERBS_DOMAIN=mhp.\n");
	return ret;
}

int report_connection(const struct options *opts, int ret)
{
	if (ret == -FI_ECONNREFUSED)
		fprintf(stderr,
			"connection refused: nobody accepts connections at %s, port %s: start the "
			"server first,\nor see what it has printed if it has ended.\n",
			opts->dst_addr, opts->dst_port);
	else
		fprintf(stderr,
			"connection refused: the server at %s, port %s, has ended it instead of "
			"accepting it:\nsee what it has printed.\n",
			opts->dst_addr, opts->dst_port);
	return ret;
}
