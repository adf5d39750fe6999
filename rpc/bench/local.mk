# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- the benchmark of durable calls; %D% is this directory

noinst_PROGRAMS += fi_pmem_rpc_bench
fi_pmem_rpc_bench_SOURCES = \
	%D%/bench.h \
	%D%/call.h \
	%D%/call_design.c \
	%D%/call_pmemrpc.c \
	%D%/design.h \
	%D%/design_fetch.c \
	%D%/design_link.c %D%/design_link.h \
	%D%/design_message.c \
	%D%/design_write.c \
	%D%/fi_pmem_rpc_bench.c \
	%D%/frame.c \
	%D%/graph.c %D%/graph.h \
	%D%/handler.c %D%/handler.h \
	%D%/journal.c %D%/journal.h \
	%D%/load.c %D%/load.h \
	%D%/mark.c \
	%D%/report.c \
	%D%/serve_design.c \
	%D%/serve_pmemrpc.c \
	%D%/workload_objects.c \
	%D%/workload_pagerank.c \
	%D%/workload_ycsb.c \
	rpc/programs/kv.c rpc/programs/kv.h \
	util/number.h
fi_pmem_rpc_bench_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
fi_pmem_rpc_bench_CFLAGS = -pthread $(AM_CFLAGS) $(PMEM2_CFLAGS) $(XXHASH_CFLAGS)
fi_pmem_rpc_bench_LDADD = libcommon.la libconnection.la libpmemrpc.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) -lm

EXTRA_DIST += %D%/README.md %D%/rpc-bench
