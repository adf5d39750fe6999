# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- blocks on several targets, by chains; %D% is this directory

rs_client_sources = \
	fabtests/kv/kv_store.c fabtests/kv/kv_store.h fabtests/kv/kv.h \
	%D%/rs.c %D%/rs.h \
	%D%/rs_chain.c %D%/rs_chain.h \
	%D%/rs_client.c %D%/rs_client.h \
	%D%/rs_replica.c %D%/rs_replica.h

bin_PROGRAMS += fi_pmem_rs
fi_pmem_rs_SOURCES = $(rs_client_sources) \
	fabtests/kv/kv_target.c fabtests/kv/kv_target.h \
	%D%/fi_pmem_rs.c \
	%D%/rs_bench.c \
	%D%/rs_lock.c %D%/rs_lock.h \
	%D%/rs_run.h \
	%D%/rs_soak.c \
	fabtests/common/turns.c fabtests/common/turns.h \
	prov/pmemverbs/agent/flush.c prov/pmemverbs/agent/flush.h \
	rpc/bench/random.c rpc/bench/random.h
fi_pmem_rs_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS) -I$(srcdir)/prov/pmemverbs -I$(srcdir)/rpc
fi_pmem_rs_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_rs_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) -lm

noinst_PROGRAMS += rs_judge rs_race
rs_judge_SOURCES = fabtests/kv/history_lines.c fabtests/kv/history_lines.h \
	%D%/rs_history.c %D%/rs_history.h %D%/rs_judge.c
rs_race_SOURCES = $(rs_client_sources) %D%/rs_race.c
rs_race_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
rs_race_LDADD = libcommon.la libconnection.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/README.md %D%/rs-test
