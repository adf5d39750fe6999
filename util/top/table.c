/* SPDX-License-Identifier: BSD-2-Clause */
/* table.c -- what processes did since the last look; table.h */
#include "table.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define INFO "pmemverbs_info{"

/* A process at two looks; before may be NULL. */
struct process {
	const char *before;
	const char *now;
	double seconds;
};

/* next_sample -- the value behind `at` of a sample of that metric; NULL: there is none */
static const char *next_sample(const char *at, const char *name, const char **labels)
{
	char begin[96];

	snprintf(begin, sizeof(begin), "\n%s{", name);
	at = at ? strstr(at, begin) : NULL;
	if (!at)
		return NULL;
	*labels = at + strlen(begin);
	return strstr(*labels, "} ");
}

/* sum -- of all samples of a metric that have this label, or any */
static double sum(const char *text, const char *name, const char *label)
{
	const char *labels, *at = text;
	double all = 0;

	while ((at = next_sample(at, name, &labels))) {
		const char *has = strstr(labels, label);

		if (has && has <= at)
			all += strtod(at + 2, NULL);
	}
	return all;
}

static double more(const struct process *process, const char *name, const char *label)
{
	return sum(process->now, name, label) -
	       (process->before ? sum(process->before, name, label) : 0);
}

static double rate(const struct process *process, const char *name, const char *label)
{
	return more(process, name, label) / process->seconds;
}

/* quantile -- the upper limit of the bucket that has it; -1: there is nothing */
static double quantile(const struct process *process, const char *name, double part)
{
	char bucket[96], count[96], label[64];
	const char *labels, *at = process->now, *le;
	double all;

	snprintf(bucket, sizeof(bucket), "%s_bucket", name);
	snprintf(count, sizeof(count), "%s_count", name);
	all = more(process, count, "");
	while (all > 0 && (at = next_sample(at, bucket, &labels))) {
		le = strstr(labels, "le=\"");
		if (!le || le > at || strlen(le) < 5)
			continue;
		/* Each method has this limit. */
		snprintf(label, sizeof(label), "%.*s", (int) strcspn(le + 4, "\"") + 5, le);
		if (more(process, bucket, label) >= part * all)
			return strtod(le + 4, NULL);
	}
	return -1;
}

/* show_count -- in 7 places */
static void show_count(double value)
{
	static const char units[] = " KMGTP";
	unsigned int unit = 0;

	while (value >= 99999.5 && unit + 2 < sizeof(units)) {
		value /= 1000;
		unit++;
	}
	printf(" %6.*f%c", value > 0 && value < 9.95 && (unit || value != (long) value), value,
	       units[unit]);
}

static void show_time(double seconds)
{
	if (seconds < 0)
		printf(" %7s", "-");
	else if (seconds < 1e-3)
		printf(" %5.0fus", seconds * 1e6);
	else if (seconds < 1)
		printf(" %5.0fms", seconds * 1e3);
	else
		printf(" %6.1fs", seconds);
}

static const char *const columns[] = {"write/s", "read/s", "flush/s", "agent/s", "bytes/s",
				      "p50",     "p99",    "failed",  "serve/s", "pending",
				      "syncs/s", "sync99", "peers"};

static void print_process(const struct process *process)
{
	const char *commits = "pmemverbs_commits_total";

	show_count(rate(process, commits, "method=\"write\""));
	show_count(rate(process, commits, "method=\"read\""));
	show_count(rate(process, commits, "method=\"flush\""));
	show_count(rate(process, commits, "method=\"agent\""));
	show_count(rate(process, "pmemverbs_commit_size_bytes_sum", ""));
	show_time(quantile(process, "pmemverbs_commit_seconds", 0.5));
	show_time(quantile(process, "pmemverbs_commit_seconds", 0.99));
	show_count(more(process, "pmemverbs_commits_refused_total", "") +
		   more(process, "pmemverbs_commits_failed_total", ""));
	show_count(rate(process, "pmemverbs_agent_requests_total", ""));
	show_count(sum(process->now, "pmemverbs_agent_requests_pending", ""));
	show_count(rate(process, "pmemverbs_agent_syncs_total", ""));
	show_time(quantile(process, "pmemverbs_agent_sync_seconds", 0.99));
	show_count(sum(process->now, "pmemverbs_endpoints", ""));
}

/* info -- what names a process, up to the end of its line; NULL: the text is of something else */
static const char *info(const char *text)
{
	const char *at = strstr(text, "\n" INFO);

	return at ? at + 1 : NULL;
}

static const char *find(const struct texts *texts, const char *whom)
{
	size_t len = strcspn(whom, "\n");

	for (size_t i = 0; texts && i < texts->count; i++) {
		const char *at = info(texts->text[i]);

		if (at && !strncmp(at, whom, len + 1))
			return texts->text[i];
	}
	return NULL;
}

/* print_label -- its value; what a process says may be anything */
static void print_label(const char *line, const char *name, int width)
{
	const char *at = strstr(line, name);
	char text[32] = "?";
	size_t len = 0;

	if (at && at < line + strcspn(line, "\n")) {
		at += strlen(name);
		while (at[len] > ' ' && at[len] < 127 && at[len] != '"' && len < sizeof(text) - 1) {
			text[len] = at[len];
			len++;
		}
		text[len] = '\0';
	}
	printf("%*.*s", width, abs(width), text);
}

void table_print(const struct texts *before, const struct texts *now, double seconds)
{
	printf("%-18s%8s", "PROGRAM", "PID");
	for (size_t i = 0; i < sizeof(columns) / sizeof(columns[0]); i++)
		printf(" %7s", columns[i]);
	printf("\n");
	for (size_t i = 0; i < now->count; i++) {
		const char *line = info(now->text[i]);
		struct process process = {.now = now->text[i], .seconds = seconds};

		if (!line)
			continue;
		process.before = find(before, line);
		if (!process.before)
			process.seconds = 1;
		print_label(line, "program=\"", -18);
		print_label(line, "pid=\"", 8);
		print_process(&process);
		printf("%s\n", process.before ? "" : " (in all)");
	}
}
