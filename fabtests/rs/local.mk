# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- blocks on several targets, by chains; %D% is this directory

noinst_LTLIBRARIES += librs.la
librs_la_SOURCES = \
	%D%/rs.c %D%/rs.h \
	%D%/rs_chain.c %D%/rs_chain.h \
	%D%/rs_client.c %D%/rs_client.h \
	%D%/rs_replica.c %D%/rs_replica.h
librs_la_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
rs_libraries = librs.la $(kv_libraries)

bin_PROGRAMS += fi_pmem_rs
fi_pmem_rs_SOURCES = \
	%D%/fi_pmem_rs.c \
	%D%/rs_bench.c \
	%D%/rs_lock.c %D%/rs_lock.h \
	%D%/rs_run.h \
	%D%/rs_soak.c
fi_pmem_rs_CPPFLAGS = $(AM_CPPFLAGS) $(PMEM2_CFLAGS)
fi_pmem_rs_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS) -pthread
fi_pmem_rs_LDADD = $(rs_libraries) $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS) -lm

noinst_PROGRAMS += rs_judge rs_race
rs_judge_SOURCES = fabtests/kv/history_lines.c fabtests/kv/history_lines.h \
	%D%/rs_history.c %D%/rs_history.h %D%/rs_judge.c
rs_race_SOURCES = %D%/rs_race.c
rs_race_LDADD = $(rs_libraries) $(LIBFABRIC_LIBS) $(PMEM2_LIBS) $(XXHASH_LIBS)

EXTRA_DIST += %D%/README.md %D%/rs-test
