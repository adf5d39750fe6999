/* SPDX-License-Identifier: BSD-2-Clause */
/* fi_pmem_info.c -- tells what this machine, or a running target, can promise: fi_pmem_info(1) */
#include <argp.h>
#include <error.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/setting.h"
#include "config.h"
#include "info.h"

#define DEFAULT_TIMEOUT 10
#define MOST_TIMEOUT 3600

const char *argp_program_version = "fi_pmem_info of pmemverbs " PACKAGE_VERSION;

struct options {
	bool json;
	int timeout; /* in seconds */
	char *host;  /* of a target, or NULL */
	char *port;
	char **paths; /* ends with NULL */
};

static const struct argp_option argp_options[] = {
	{"json", 'j', NULL, 0, "print JSON, with all that the screen shows and more", 0},
	{"connect", 'c', "HOST:PORT", 0,
	 "ask a running target what it offers and what it has counted; its application does not "
	 "notice",
	 0},
	{"timeout", 't', "SECONDS", 0, "how long to wait for a target (default: 10)", 0},
	{0},
};

static bool is_port(const char *text)
{
	char *end;
	unsigned long port = strtoul(text, &end, 10);

	return *text >= '0' && *text <= '9' && !*end && port >= 1 && port <= UINT16_MAX;
}

/* split -- HOST:PORT, where the host may be [::1] */
static bool split(char *address, struct options *options)
{
	char *colon = strrchr(address, ':');
	size_t len = colon ? (size_t) (colon - address) : 0;

	if (!len || !is_port(colon + 1))
		return false;
	*colon = '\0';
	options->port = colon + 1;
	options->host = address;
	if (address[0] != '[')
		return true;
	if (len < 3 || address[len - 1] != ']')
		return false;
	address[len - 1] = '\0';
	options->host = address + 1;
	return true;
}

static error_t parse(int key, char *arg, struct argp_state *state)
{
	struct options *options = state->input;
	char *end;

	switch (key) {
	case 'j':
		options->json = true;
		return 0;
	case 'c':
		if (!split(arg, options))
			argp_error(state, "--connect needs HOST:PORT, with a port from 1 to 65535");
		return 0;
	case 't':
		options->timeout = (int) strtol(arg, &end, 10);
		if (end == arg || *end || options->timeout < 1 || options->timeout > MOST_TIMEOUT)
			argp_error(state, "--timeout needs 1 to %d seconds", MOST_TIMEOUT);
		return 0;
	case ARGP_KEY_ARGS:
		options->paths = state->argv + state->next;
		return 0;
	case ARGP_KEY_END:
		if (options->host && options->paths)
			argp_error(state,
				   "--connect is about a target, and files are about this machine");
		return 0;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp argp = {
	argp_options,
	parse,
	"[PATH...]",
	"Tells what this machine can promise to those who write to its persistent memory: devices, "
	"memory, how commits are made and why, what would be faster, and what would lose data. The "
	"settings (FI_PMEMVERBS_*) are those of this environment."
	"\v"
	"PATH is a file, a device or a directory to look at, besides the regions that the machine "
	"has. Run it as "
	"root: "
	"others can't read DDIO and relaxed ordering.\n\n"
	"Exit status: 0; 1 if the set-up can lose data (DATA LOSS in the output, loses_data in "
	"JSON), or "
	"if a target does not answer; 2 if it was called wrongly.",
	NULL,
	NULL,
	NULL};

/* is_found -- does libfabric know the provider?  It is asked as an application would. */
static bool is_found(void)
{
	struct fi_info *list = NULL, *info;
	bool found = false;

	if (fi_getinfo(FI_VERSION(1, 17), NULL, NULL, FI_PROV_ATTR_ONLY, NULL, &list))
		return false;
	for (info = list; info && !found; info = info->next)
		found = !strcmp(info->fabric_attr->prov_name, PMV_NAME);
	fi_freeinfo(list);
	return found;
}

static json_object *look_here(char **paths)
{
	struct info *info = calloc(1, sizeof(*info));
	json_object *model;

	if (!info)
		error(1, errno, "no memory");
	info->found = is_found();
	info->nodes = info_nodes();
	info_devices(info, info_ask_core);
	info_rdma_flush(info, info_ask_core);
	info_regions(info);
	for (; paths && *paths; paths++) {
		info_path(info, *paths, info_detect_file);
		info_direct(info, *paths);
	}
	model = info_model(info);
	free(info);
	return model;
}

static json_object *ask_target(const struct options *options, bool *refused)
{
	struct info_answer answer = {0};

	if (!info_ask(options->host, options->port, options->timeout * 1000, &answer))
		error(1, 0, "%s, port %s: %s", options->host, options->port, answer.why);
	*refused = answer.refused;
	return info_target(options->host, options->port, &answer);
}

int main(int argc, char **argv)
{
	struct options options = {.timeout = DEFAULT_TIMEOUT};
	json_object *model;
	bool loses, refused = false;

	argp_err_exit_status = 2;
	argp_parse(&argp, argc, argv, 0, NULL, &options);
	pmv_setting_read();
	model = options.host ? ask_target(&options, &refused) : look_here(options.paths);
	if (options.json)
		puts(json_object_to_json_string_ext(model, JSON_C_TO_STRING_PRETTY |
								   JSON_C_TO_STRING_NOSLASHESCAPE));
	else
		info_screen(model, stdout);
	loses = info_loses_data(model);
	json_object_put(model);
	if (fflush(stdout))
		error(1, errno, "output");
	return loses || refused;
}
