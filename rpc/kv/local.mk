# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- an example for libpmemrpc: a key-value store; %D% is this directory

noinst_PROGRAMS += %D%/fi_pmem_rpc_kv
%C%_fi_pmem_rpc_kv_SOURCES = %D%/fi_pmem_rpc_kv.c %D%/kv.c %D%/kv.h
%C%_fi_pmem_rpc_kv_CPPFLAGS = $(AM_CPPFLAGS) -I$(srcdir)/rpc
%C%_fi_pmem_rpc_kv_CFLAGS = $(AM_CFLAGS) $(XXHASH_CFLAGS)
%C%_fi_pmem_rpc_kv_LDADD = libpmemrpc.la $(XXHASH_LIBS)
