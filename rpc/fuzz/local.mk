# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- libpmemrpc's fuzzers; %D% is this directory
#
# Built as prov/fuzz's are, which comes first.

fuzzers += fuzz_rpc_client fuzz_rpc_server
EXTRA_PROGRAMS += fuzz_rpc_client fuzz_rpc_seeds fuzz_rpc_server

EXTRA_LTLIBRARIES += libfuzzingrpc.la
libfuzzingrpc_la_SOURCES = $(testcore_sources) %D%/net.c %D%/net.h %D%/net_events.c %D%/net_objects.h
libfuzzingrpc_la_CPPFLAGS = $(fuzz_rpc_cppflags)
libfuzzingrpc_la_CFLAGS = $(fuzz_cflags)

fuzz_rpc_cppflags = -I$(top_srcdir)/prov/fuzz -I$(top_srcdir)/rpc/lib $(AM_CPPFLAGS)
# There is no network, no time, and no file.
fuzz_rpc_ldflags = $(fuzz_ldflags) \
	-Wl,--wrap=fi_getinfo,--wrap=fi_fabric,--wrap=getrandom,--wrap=rpc_now_ms,--wrap=rpc_now_ns
fuzz_rpc_ldadd = libfuzzingrpc.la librpc.la $(LIBFABRIC_LIBS) $(XXHASH_LIBS)

fuzz_rpc_client_SOURCES = %D%/fuzz_rpc_client.c
fuzz_rpc_client_CPPFLAGS = $(fuzz_rpc_cppflags)
fuzz_rpc_client_CFLAGS = $(fuzz_cflags) $(XXHASH_CFLAGS)
fuzz_rpc_client_LDFLAGS = $(fuzz_rpc_ldflags),--wrap=usleep
fuzz_rpc_client_LDADD = $(fuzz_rpc_ldadd)
fuzz_rpc_server_SOURCES = %D%/fuzz_rpc_server.c %D%/server_oracle.c %D%/server_oracle.h
fuzz_rpc_server_CPPFLAGS = $(fuzz_rpc_cppflags)
fuzz_rpc_server_CFLAGS = $(fuzz_cflags) $(XXHASH_CFLAGS) $(PMEM2_CFLAGS)
fuzz_rpc_server_LDFLAGS = $(fuzz_rpc_ldflags),--wrap=rpc_pmem_open,--wrap=rpc_pmem_close
fuzz_rpc_server_LDADD = $(fuzz_rpc_ldadd)
fuzz_rpc_seeds_SOURCES = %D%/fuzz_rpc_seeds.c
fuzz_rpc_seeds_CFLAGS = $(fuzz_cflags)
