/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * options.h -- the command line, in fabtests' letters
 */
#ifndef PMEM_OPTIONS_H
#define PMEM_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>

#define MAX_SIZES 64
#define MAX_OPS 256
#define MAX_HOSTS 16

/* How completions are waited for. */
enum wait_method {
	WAIT_DEFAULT,
	WAIT_SPIN,
	WAIT_SREAD,
	WAIT_FD,
	WAIT_AWAY, /* server: it does not look */
};

struct options {
	const char *prog;
	const char *provider;
	const char *fabric;
	const char *domain;
	const char *src_addr;
	const char *src_port;
	const char *dst_addr; /* NULL: this process is the server */
	const char *dst_port;
	const char *hosts[MAX_HOSTS]; /* the first one is dst_addr */
	const char *ports[MAX_HOSTS]; /* of a host that has named one, or NULL */
	unsigned int nhosts;
	const char *memory; /* NULL: anonymous */
	const char *csv;    /* where rows go to, besides the table */
	const char *acks;   /* fi_pmem_plug: check what is in memory against these */
	const char *ops[MAX_OPS];
	unsigned int nops;
	size_t sizes[MAX_SIZES];
	unsigned int nsizes;
	unsigned long windows[MAX_SIZES]; /* all that -W names */
	unsigned int nwindows;
	unsigned long pauses[MAX_SIZES]; /* all that -i names: microseconds before each operation */
	unsigned int npauses;
	unsigned long iterations;
	unsigned long warmup;
	unsigned long window;  /* the first of these */
	unsigned long limit;   /* milliseconds that a row of the table may take; 0: no limit */
	unsigned long every;   /* a commit every so many writes */
	bool unordered;        /* not an option: FI_OPT_PMEMVERBS_WRITES_PASS */
	unsigned long records; /* that there is room for */
	unsigned long connections;
	unsigned long timeout; /* seconds */
	unsigned long long seed;
	enum wait_method wait;
	bool verify;
	bool is_volatile;
	int status;    /* to exit with, when options_parse says so */
	int target_fd; /* functional program: where a target gets its commands */
};

/* What a program exits with that was not called as it has to be. */
#define EXIT_USAGE 2

struct program {
	const char *name;
	const char *summary;
	const char *letters;    /* the options that it takes */
	const char *operations; /* for --help: what -o may say */
	bool hosts;             /* it takes more than one, each with a port if that is not -P's */
	bool lists;             /* -S, -W and -i take more than one value: a row for each */
};

/*
 * options_parse -- fill in opts, which holds the defaults, from the command line,
 * and look whether the memory and the hosts that it names are there.  False:
 * there is nothing to run; what there is to say has been said, and opts->status is
 * the exit status.
 */
bool options_parse(struct options *opts, const struct program *prog, int argc, char **argv);

/* options_ready -- tell whoever has started this server that clients may come */
void options_ready(const char *port);

/* options_op -- index of the (only) operation in a NULL-terminated list, -1 if not there */
int options_op(const struct options *opts, const char *const *names);

/* options_select -- is this operation one of those asked for?  With none that is all of them. */
bool options_select(const struct options *opts, const char *name);

/* options_largest -- the largest size that is to be measured */
size_t options_largest(const struct options *opts);

#endif /* PMEM_OPTIONS_H */
