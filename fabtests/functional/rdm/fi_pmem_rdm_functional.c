/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * fi_pmem_rdm_functional.c -- checks of durable remote writes over FI_EP_RDM
 *
 * The server owns the memory and does what the client says over a connection of
 * their own.  A write is not taken to be committed because its data are there: the
 * server is stopped for a while, and what completes meanwhile has not asked it.
 * Where a NIC can commit by itself, it has to do so meanwhile.
 *
 * With FI_PMEMVERBS_COMMIT=all both know nothing of persistent memory: no
 * capability, no flag.  Every write has to wait for the server all the same.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rdm_functional.h"

static const struct program program = {
	.name = "fi_pmem_rdm_functional",
	.summary = "Checks durable remote writes over FI_EP_RDM.\n"
		   "Anonymous memory has to be declared: FI_PMEMVERBS_DOMAIN=mhp, say.",
	.letters = "fdBPMsoh",
	.operations = "run this case (may be repeated, or a comma list); list: tell the names "
		      "(default: all cases)",
};

static const struct test *const groups[] = {rdm_write_cases,   rdm_atomic_cases,  rdm_loss_cases,
					    rdm_gone_cases,    rdm_library_cases, rdm_call_cases,
					    rdm_message_cases, rdm_fence_cases};

#define NUM_GROUPS (sizeof(groups) / sizeof(groups[0]))

bool commit_all;
static bool no_agent; /* FI_PMEMVERBS_AGENT=off, for the one case that goes without */

static bool fits(const struct test *test)
{
	if (no_agent)
		return test->when == NO_AGENT && commit_all;
	if (test->when == GONE)
		return getenv("PMEM_GONE_CUT") && getenv("PMEM_GONE_MEND");
	if (test->when == TIMEOUT)
		return getenv("FI_PMEMVERBS_TIMEOUT");
	return test->when == ALWAYS || (test->when == COMMIT_ALL && commit_all);
}

static int run_one(struct client *client, const struct test *test)
{
	int ret;

	client->reason[0] = '\0';
	ret = open_client(client, &test->settings) || test->run(client) ? -1 : 0;
	if (go_on(client) || close_client(client))
		ret = -1;
	printf("%s %s%s%s\n", ret ? "not ok" : "ok", test->name, ret ? " - " : "",
	       ret ? client->reason : "");
	fflush(stdout);
	return ret;
}

static int run_client(const struct options *opts)
{
	struct client client = {.opts = opts};
	int failed = 0, run = 0;

	client.buf = calloc(1, SIZE);
	client.control = control_connect(opts->dst_addr, opts->dst_port, opts->timeout);
	if (!client.buf || client.control < 0) {
		free(client.buf);
		return -1;
	}
	for (size_t i = 0; i < NUM_GROUPS; i++) {
		for (const struct test *test = groups[i]; test->name; test++) {
			if (!options_select(opts, test->name) || !fits(test))
				continue;
			run++;
			if (run_one(&client, test))
				failed++;
		}
	}
	printf("%d cases, %d failed\n", run, failed);
	ask(&client, ASK_BYE, failed, 0, NULL, 0);
	close(client.control);
	free(client.buf);
	return failed || !run ? -1 : 0;
}

static int run_server(const struct options *opts)
{
	int fd = provider_is_there(NULL, opts->provider)
			 ? control_accept(opts->src_addr, opts->src_port)
			 : -1;
	int ret;

	if (fd < 0)
		return -1;
	ret = serve(opts, fd);
	close(fd);
	return ret;
}

static void list_cases(void)
{
	for (size_t i = 0; i < NUM_GROUPS; i++) {
		for (const struct test *test = groups[i]; test->name; test++)
			puts(test->name);
	}
}

int main(int argc, char **argv)
{
	struct options opts = {0};
	const char *setting = getenv("FI_PMEMVERBS_COMMIT"), *agent = getenv("FI_PMEMVERBS_AGENT");
	int ret;

	if (!options_parse(&opts, &program, argc, argv))
		return opts.status;
	if (opts.nops == 1 && !strcmp(opts.ops[0], "list")) {
		list_cases();
		return EXIT_SUCCESS;
	}
	commit_all = setting && !strcmp(setting, "all");
	no_agent = agent && !strcmp(agent, "off");
	/* verbs' registration cache would grant peers every access to every region. */
	setenv("FI_MR_CACHE_MAX_COUNT", "0", 1);
	/* Of long messages RxM is to make writes. */
	setenv("FI_OFI_RXM_SAR_LIMIT", "1", 1);
	setenv("FI_OFI_RXM_USE_RNDV_WRITE", "1", 1);
	/* RxM is to close a connection when the address is forgotten. */
	setenv("FI_AV_REMOVE_CLEANUP", "1", 1);
	signal(SIGPIPE, SIG_IGN);
	ret = opts.dst_addr ? run_client(&opts) : run_server(&opts);
	return ret ? EXIT_FAILURE : EXIT_SUCCESS;
}
