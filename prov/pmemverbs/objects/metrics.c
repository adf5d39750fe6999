/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * metrics.c -- what a process tells of itself in Prometheus' text format (FI_PMEMVERBS_METRICS)
 *
 * fi_pmemverbs_metrics(7) has each metric.  They are counters of all domains that the process ever
 * had, and histograms.  A domain that is closed leaves its counters behind, so none ever falls.
 *
 * The lock is taken before those of a domain's counters (tally.c).
 */
#include "objects/domain.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "agent/pages.h"
#include "base/log.h"
#include "base/setting.h"
#include "base/text_socket.h"
#include "commit/sample.h"
#include "config.h"

static struct {
	pthread_mutex_t lock;
	LIST_HEAD(, pmv_domain) domains;
	struct fi_pmemverbs_counters closed; /* of those that are */
	bool opened;
} all = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Counters, and what is so many now.  Rows of one name stand together. */
static const struct {
	const char *name;
	const char *label; /* of one method, or none */
	const char *type;
	const char *help;
	size_t offset;
} values[] = {
#define VALUE(name, label, type, member, help)                                                     \
	{                                                                                          \
		"pmemverbs_" name, label, type, help,                                              \
			offsetof(struct fi_pmemverbs_counters, member)                             \
	}
	VALUE("endpoints", "", "gauge", endpoints, "Endpoints that are open."),
	VALUE("connections_total", "", "counter", connections, "Connections that were made."),
	VALUE("disconnections_total", "", "counter", disconnections,
	      "Connections that the peer has ended, or that were lost."),
	VALUE("peers_given_up_total", "", "counter", peers_given_up,
	      "Connections that were lost as the peer's machine was silent."),
	VALUE("commits_total", ",method=\"write\"", "counter", commits_write,
	      "Commits that were accepted, by how they become durable."),
	VALUE("commits_total", ",method=\"read\"", "counter", commits_read, ""),
	VALUE("commits_total", ",method=\"flush\"", "counter", commits_flush, ""),
	VALUE("commits_total", ",method=\"agent\"", "counter", commits_agent, ""),
	VALUE("commits_refused_total", "", "counter", commits_refused,
	      "Commits whose call has failed."),
	VALUE("commits_failed_total", "", "counter", commits_failed,
	      "Commits that were accepted and have failed."),
	VALUE("requests_total", "", "counter", requests_sent, "Messages to agents of peers."),
	VALUE("requests_awaited", "", "gauge", requests_awaited,
	      "Operations that wait for the agent of a peer."),
	VALUE("chains_total", "", "counter", chains, "Chains that were accepted."),
	VALUE("agent_requests_total", "", "counter", requests_served,
	      "Messages of peers that were acknowledged."),
	VALUE("agent_requests_refused_total", "", "counter", requests_refused,
	      "Messages of peers that were acknowledged with an error."),
	VALUE("agent_requests_pending", "", "gauge", requests_pending,
	      "Messages of peers that the agent has taken and not acknowledged."),
	VALUE("agent_chains_total", "", "counter", chains_served, "Chains of peers."),
	VALUE("agent_flushes_total", "", "counter", flushes,
	      "Ranges whose cache lines were written back."),
	VALUE("agent_flushed_bytes_total", "", "counter", flushed_bytes, "Bytes in these ranges."),
	VALUE("agent_syncs_total", "", "counter", syncs,
	      "Ranges of pages, or of blocks of files, that were synced."),
	VALUE("agent_synced_bytes_total", "", "counter", synced_bytes, "Bytes in these ranges."),
	VALUE("agent_stores_total", "", "counter", stores, "Data that came in a message."),
	VALUE("agent_stored_bytes_total", "", "counter", stored_bytes, "Bytes of these data."),
	VALUE("agent_sleeps_total", "", "counter", sleeps, "Sleeps of the agent's threads."),
	VALUE("agent_wakes_total", "", "counter", wakes,
	      "Sleeps that a peer or the application has ended."),
#undef VALUE
};

static const char *const methods[] = {
	[PMV_METHOD_WRITE] = ",method=\"write\"",
	[PMV_METHOD_READ] = ",method=\"read\"",
	[PMV_METHOD_FLUSH] = ",method=\"flush\"",
	[PMV_METHOD_AGENT] = ",method=\"agent\"",
};

/* The upper limits of what is shown: 1 to 2^30 bytes, and 1 microsecond to 17 seconds. */
enum { LEAST_SIZE = 0, MOST_SIZE = 30, LEAST_TIME = 10, MOST_TIME = 34 };

/* What the samples of this process have in common. */
static char process[96];

/*
 * hold -- what was told once is not taken back: a commit that finds no room is counted for a
 * moment, and who reads takes a counter that falls for a new process.  Holds the lock.
 */
static void hold(struct fi_pmemverbs_counters *sum)
{
	static uint64_t told[sizeof(values) / sizeof(values[0])];

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		uint64_t *value = (uint64_t *) ((char *) sum + values[i].offset);

		if (strcmp(values[i].type, "counter"))
			continue;
		if (*value < told[i])
			*value = told[i];
		told[i] = *value;
	}
}

static void head(FILE *text, const char *name, const char *type, const char *help)
{
	fprintf(text, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void write_values(FILE *text, const struct fi_pmemverbs_counters *sum)
{
	const char *last = "";

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		const uint64_t *value = (const uint64_t *) ((const char *) sum + values[i].offset);

		if (strcmp(values[i].name, last))
			head(text, values[i].name, values[i].type, values[i].help);
		last = values[i].name;
		fprintf(text, "%s{%s%s} %llu\n", last, process, values[i].label,
			(unsigned long long) *value);
	}
}

/* A number of bytes, or of nanoseconds as seconds.  Not as a double: a locale may have a comma. */
static void write_number(FILE *text, uint64_t value, bool nanoseconds)
{
	const uint64_t second = 1000000000;

	if (nanoseconds)
		fprintf(text, "%llu.%09llu", (unsigned long long) (value / second),
			(unsigned long long) (value % second));
	else
		fprintf(text, "%llu", (unsigned long long) value);
}

/* write_histogram -- its buckets are read once, so it is what it says whatever is added meanwhile
 */
static void write_histogram(FILE *text, const char *name, const char *label,
			    const struct pmv_histogram *histogram, unsigned int least,
			    unsigned int most, bool nanoseconds)
{
	unsigned long long count = 0;

	for (unsigned int i = 0; i < PMV_HISTOGRAM_BUCKETS; i++) {
		count += atomic_load(&histogram->buckets[i]);
		if (i < least || i > most)
			continue;
		fprintf(text, "%s_bucket{%s%s,le=\"", name, process, label);
		write_number(text, UINT64_C(1) << i, nanoseconds);
		fprintf(text, "\"} %llu\n", count);
	}
	fprintf(text, "%s_bucket{%s%s,le=\"+Inf\"} %llu\n", name, process, label, count);
	fprintf(text, "%s_sum{%s%s} ", name, process, label);
	write_number(text, atomic_load(&histogram->sum), nanoseconds);
	fprintf(text, "\n");
	fprintf(text, "%s_count{%s%s} %llu\n", name, process, label, count);
}

static void write_histograms(FILE *text)
{
	const struct pmv_sample_histograms *commits = &pmv_sample_histograms;
	const char *name = "pmemverbs_commit_size_bytes";

	head(text, name, "histogram", "Bytes of a commit.");
	for (unsigned int i = PMV_METHOD_WRITE; i < PMV_SAMPLE_METHODS; i++)
		write_histogram(text, name, methods[i], &commits->size[i], LEAST_SIZE, MOST_SIZE,
				false);
	name = "pmemverbs_commit_seconds";
	head(text, name, "histogram", "Time from the call of a commit until it was found durable.");
	for (unsigned int i = PMV_METHOD_WRITE; i < PMV_SAMPLE_METHODS; i++)
		write_histogram(text, name, methods[i], &commits->time[i], LEAST_TIME, MOST_TIME,
				true);
	name = "pmemverbs_agent_sync_seconds";
	head(text, name, "histogram", "Time that the agent has waited for a disk.");
	write_histogram(text, name, "", &pmv_pages_sync_ns, LEAST_TIME, MOST_TIME, true);
}

void pmv_metrics_write(FILE *text)
{
	struct fi_pmemverbs_counters sum;
	struct pmv_domain *domain;
	unsigned int open = 0;

	pthread_mutex_lock(&all.lock);
	sum = all.closed;
	LIST_FOREACH(domain, &all.domains, next_of_all)
	{
		open++;
		pmv_tally_read(domain, &sum);
	}
	hold(&sum);
	pthread_mutex_unlock(&all.lock);
	head(text, "pmemverbs_info", "gauge", "Always 1. The labels say what this process runs.");
	fprintf(text, "pmemverbs_info{%s,version=\"" PACKAGE_VERSION "\"} 1\n", process);
	head(text, "pmemverbs_domains", "gauge", "Domains that are open.");
	fprintf(text, "pmemverbs_domains{%s} %u\n", process, open);
	write_values(text, &sum);
	write_histograms(text);
}

/* open_socket -- without it the process goes on: nothing that it does depends on that */
static void open_socket(void)
{
	size_t used;
	int ret;

	used = (size_t) snprintf(process, sizeof(process), "pid=\"%d\",program=\"%.40s",
				 (int) getpid(), program_invocation_short_name);
	for (char *at = strstr(process, "program=\"") + strlen("program=\""); *at; at++) {
		if (*at == '"' || *at == '\\' || (unsigned char) *at < ' ' ||
		    (unsigned char) *at > '~')
			*at = '_';
	}
	snprintf(process + used, sizeof(process) - used, "\"");
	ret = pmv_text_socket_open(pmv_setting.metrics, pmv_metrics_write);
	if (ret)
		PMV_WARN(DOMAIN, "there are no metrics of this process in %s: %s\n",
			 pmv_setting.metrics, strerror(ret));
}

void pmv_metrics_join(struct pmv_domain *domain)
{
	bool first;

	pthread_mutex_lock(&all.lock);
	LIST_INSERT_HEAD(&all.domains, domain, next_of_all);
	first = !all.opened;
	all.opened = true;
	if (first && pmv_setting.metrics)
		open_socket();
	pthread_mutex_unlock(&all.lock);
}

void pmv_metrics_leave(struct pmv_domain *domain)
{
	pthread_mutex_lock(&all.lock);
	LIST_REMOVE(domain, next_of_all);
	pmv_tally_read(domain, &all.closed);
	/* What is so many now: the agent may still have requests of connections that are closed. */
	all.closed.endpoints = all.closed.requests_awaited = all.closed.requests_pending = 0;
	pthread_mutex_unlock(&all.lock);
}
