# SPDX-License-Identifier: BSD-2-Clause
# local.mk -- libpmemrpc on the model of the hardware; %D% is this directory

check_PROGRAMS += rpc_model
rpc_model_SOURCES = \
	%D%/comeback.c \
	%D%/judge.c \
	%D%/mutants.c \
	%D%/rpc_model.c \
	%D%/stage.c %D%/stage.h
rpc_model_CPPFLAGS = $(pmemsim_cppflags) -I$(srcdir)/rpc -I$(srcdir)/rpc/lib
rpc_model_CFLAGS = $(pmemsim_cflags)
# What mutants do wrong.
rpc_model_LDFLAGS = $(pmemsim_ldflags) \
	-Wl,--wrap=rpc_checksum,--wrap=rpc_journal_checksum,--wrap=rpc_ring_plan,--wrap=rpc_store_executed \
	-Wl,--wrap=rpc_client_resume,--wrap=rpc_ring_seal,--wrap=rpc_work_execute \
	-Wl,--wrap=rpc_ring_write,--wrap=rpc_store_resume,--wrap=rpc_commit_wait \
	-Wl,--wrap=pthread_mutex_lock,--wrap=pthread_mutex_unlock,--wrap=pthread_cond_wait
rpc_model_LDADD = libpmemsim.la librpc.la
